# SPDX-License-Identifier: Apache-2.0
"""Draws commands from the catalogue, and spoils some of them."""
import random

from . import catalogue

SPOIL_SHARE = 0.05
CASE_SHARE = 0.05
BLOCK_SHARE = 0.06  # of the items that begin a MULTI block
OTHER_SHARE = 0.04  # of the commands that a second client sends
BLOCKED_SHARE = 0.04  # of the commands that a third and a fourth client send, and wait for


def _tokens(text):
    return text.split()


def _parse(tokens, pos, closing):
    """Alternatives up to the closing token: a list of sequences of nodes."""
    alternatives, nodes = [], []
    while pos < len(tokens):
        token = tokens[pos]
        pos += 1
        if token == closing:
            alternatives.append(nodes)
            return alternatives, pos
        if token == "|":
            alternatives.append(nodes)
            nodes = []
        elif token in ("[", "(", "{", "N{"):
            inner, pos = _parse(tokens, pos, {"[": "]", "(": ")", "{": "}", "N{": "}"}[token])
            nodes.append((token, inner))
        elif token.startswith("<"):
            nodes.append(("<", token[1:-1]))
        else:
            nodes.append(("word", token.encode()))
    assert closing is None, (tokens, closing)
    alternatives.append(nodes)
    return alternatives, pos


def forms_of(text):
    """Lines of the catalogue as (weight, command name, nodes)."""
    for line in text.strip().splitlines():
        tokens = _tokens(line)
        weight = 1.0
        if tokens[0].replace(".", "").isdigit():
            weight = float(tokens.pop(0))
        nodes = _parse(tokens, 0, None)[0][0]
        yield weight, tokens[0], nodes


def names_of(group):
    return sorted({name for _, name, _ in forms_of(catalogue.FORMS[group]) if name[0] != "<"})


SMALL_GROUPS = ("connection", "transactions", "db", "spice")
WAITS = list(forms_of(catalogue.WAITS))
PRELOAD = list(forms_of(catalogue.PRELOAD))
ALL_NAMES = sorted({name for group in catalogue.FORMS for name in names_of(group)})


class Generator:
    """Draws items: (client, arguments), client 0 or 1."""

    def __init__(self, groups=None, missing=(), only_commands=()):
        self.forms, self.weights = [], []  # (group, name, nodes) and how often
        texts = [(group, catalogue.FORMS[group], 1.0) for group in groups or catalogue.FORMS]
        if groups:
            texts.append(("spice", catalogue.SPICE, 0.4))
        for group, text, factor in texts:
            lines = list(forms_of(text))
            total = sum(weight for weight, _, _ in lines)
            if group in SMALL_GROUPS and len(texts) > 2:
                factor *= 0.25
            for weight, name, nodes in lines:
                if name in missing:
                    continue
                if name in only_commands:
                    weight *= 10
                self.forms.append((group, name, nodes))
                self.weights.append(weight * factor * len(lines) ** 0.5 / total)
        self.themes = [] if groups else [group for group in catalogue.FORMS if group not in SMALL_GROUPS]
        self.cumulative = {}
        self.missing = missing
        self.waits = []
        if not {"CLIENT", "INFO"} & set(missing):
            self.waits = [form for form in WAITS if form[1] not in missing
                          and (not groups or {"list", "zset"} & set(groups))]
        self.blocks = "MULTI" not in missing and "EXEC" not in missing

    def dampen(self, name):
        """A command that mismatched is drawn less, so that the others are seen."""
        for i, (_, form_name, _) in enumerate(self.forms):
            if form_name == name:
                self.weights[i] = max(self.weights[i] * 0.7, 1e-4)
        self.cumulative = {}

    def theme(self, rand):
        """Groups that one sequence is about: its keys are then seldom empty."""
        if not self.themes:
            return ()
        return tuple(sorted(rand.sample(self.themes, rand.choice((1, 2, 2, 3)))))

    def command(self, rand, theme=()):
        if theme not in self.cumulative:
            total, sums = 0.0, []
            for (group, _, _), weight in zip(self.forms, self.weights):
                about = not theme or group in theme or group in SMALL_GROUPS
                total += weight if about else weight * 0.1
                sums.append(total)
            self.cumulative[theme] = sums
        (_, _, nodes), = rand.choices(self.forms, cum_weights=self.cumulative[theme])
        out = []
        self._expand(nodes, catalogue.Args(rand), rand, out)
        if rand.random() < SPOIL_SHARE:
            spoil(out, rand)
        if rand.random() < CASE_SHARE:
            out = [out[0].lower()] + [arg.lower() if arg.isupper() else arg for arg in out[1:]]
        return tuple(out)

    def preload(self, rand):
        """Some keys with the content that everybody has."""
        chosen = [form for form in PRELOAD if form[1] not in self.missing and rand.random() < 0.35]
        items = []
        for _, _, nodes in chosen:
            out = []
            self._expand(nodes, catalogue.Args(rand), rand, out)
            items.append((0, tuple(out)))
        return items

    def _expand(self, nodes, args, rand, out):
        for kind, what in nodes:
            if kind == "word":
                out.append(what)
            elif kind == "<":
                out.extend(args.draw(what)())
            elif kind == "[":
                if rand.random() < 0.4:
                    self._expand(rand.choice(what), args, rand, out)
            elif kind == "(":
                self._expand(rand.choice(what), args, rand, out)
            else:
                times = rand.choice((1, 1, 1, 2, 2, 3, 4))
                if kind == "N{":
                    lie = rand.choice((-1, 1, 5)) if rand.random() < 0.04 else 0
                    out.append(b"%d" % (times + lie))
                for _ in range(times):
                    self._expand(rand.choice(what), args, rand, out)

    def items(self, rand, theme=()):
        """One item, or a MULTI block of several."""
        if self.blocks and rand.random() < BLOCK_SHARE:
            return self.block(rand, theme)
        if self.waits and rand.random() < BLOCKED_SHARE and (not theme or {"list", "zset"} & set(theme)):
            out = []
            self._expand(rand.choice(self.waits)[2], catalogue.Args(rand), rand, out)
            return [(rand.choice((2, 3)), tuple(out))]
        client = 1 if rand.random() < OTHER_SHARE else 0
        return [(client, self.command(rand, theme))]

    def block(self, rand, theme):
        items = []
        if rand.random() < 0.4 and "WATCH" not in self.missing:
            items.append((0, (b"WATCH", *catalogue.Args(rand).arg_any())))
            if rand.random() < 0.5:
                items.append((rand.choice((0, 1)), self.command(rand, theme)))
        items.append((0, (b"MULTI",)))
        for _ in range(rand.randint(1, 8)):
            items.append((0, self.command(rand, theme)))
        if rand.random() < 0.1:
            items.append((1, self.command(rand, theme)))
        items.append((0, (b"DISCARD" if rand.random() < 0.1 else b"EXEC",)))
        return items

    def sequence(self, rand, low, high, reload_share=0.0):
        size = rand.randint(low, high)
        theme = self.theme(rand)
        items = self.preload(rand) if rand.random() < 0.6 else []
        size += len(items)
        while len(items) < size:
            items.extend(self.items(rand, theme))
            if reload_share and rand.random() < reload_share:
                items.append(RELOAD)
        return items

    def of_seeds(self, seeds, reload_share=0.0):
        """A sequence in which every seed makes its own item: what hypothesis plays with."""
        rand = random.Random(seeds[0])
        theme = self.theme(rand)
        items = self.preload(rand)
        for seed in seeds[1:]:
            rand = random.Random(seed)
            items.extend(self.items(rand, theme))
            if reload_share and rand.random() < reload_share:
                items.append(RELOAD)
        return items


RELOAD = (0, (b"DEBUG", b"RELOAD"))  # for terraced only


def spoil(out, rand):
    """Wrong arity, wrong place, wrong kind."""
    kind = rand.randrange(6)
    if kind == 0 and len(out) > 1:
        out.pop()
    elif kind == 1:
        out.append(rand.choice(catalogue.VALUES))
    elif kind == 2 and len(out) > 2:
        i, j = rand.randrange(1, len(out)), rand.randrange(1, len(out))
        out[i], out[j] = out[j], out[i]
    elif kind == 3 and len(out) > 1:
        out[rand.randrange(1, len(out))] = rand.choice(catalogue.EDGE_INTS)
    elif kind == 4 and len(out) > 1:
        out.insert(rand.randrange(1, len(out)), rand.choice(out[1:]))
    elif kind == 5:
        del out[1:]
