# SPDX-License-Identifier: Apache-2.0
"""A naive file system: what FS.* has to answer. And the same to a real directory, as far as that exists there."""
import ctypes
import errno
import os
import shutil

LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE = 1
AT_FDCWD = -100
CODES = {errno.ENOENT: "NOTFOUND", errno.ENOTDIR: "NOTDIR", errno.EEXIST: "EXISTS", errno.EISDIR: "ISDIR",
         errno.ENOTEMPTY: "NOTEMPTY", errno.EINVAL: "SUBTREE"}


class Error(Exception):
    """Its text is the first word of the reply."""


class Node:
    def __init__(self, is_dir, mode=None):
        self.children = {} if is_dir else None
        self.size, self.complete = 0, is_dir
        self.mode = mode if mode is not None else 0o755 if is_dir else 0o644
        self.owner = self.group = ""
        self.modified = None  # None: nobody has set it
        self.id = None

    @property
    def is_dir(self):
        return self.children is not None


class Model:
    def __init__(self):
        self.root = Node(True)
        self.root.id = 1

    # ---- finding ----

    def parent_of(self, path):
        """The directory, the name; errors are those of what is above."""
        parts = path.split(b"/")[1:]
        node = self.root
        for name in parts[:-1]:
            node = self.child(node, name)
        if not node.is_dir:
            raise Error("NOTDIR")
        return node, parts[-1]

    @staticmethod
    def child(node, name):
        if not node.is_dir:
            raise Error("NOTDIR")
        if name not in node.children:
            raise Error("NOTFOUND")
        return node.children[name]

    def find(self, path):
        if path == b"/":
            return self.root
        node, name = self.parent_of(path)
        return self.child(node, name)

    def walk(self, path, node=None):
        """(path, name, depth, node) in order of names, the top first."""
        top = node or self.find(path)

        def below(at, name, depth, node):
            yield at, name, depth, node
            if node.is_dir:
                for child in sorted(node.children):
                    yield from below((b"" if at == b"/" else at) + b"/" + child, child, depth + 1, node.children[child])

        yield from below(path, path, 0, top)

    def totals(self, node):
        if not node.is_dir:
            return node.size, 1, 0
        sums = [self.totals(child) for child in node.children.values()]
        return (sum(s[0] for s in sums), sum(s[1] for s in sums), 1 + sum(s[2] for s in sums))

    # ---- changing ----

    def make(self, path, is_dir, mode=None):
        if path == b"/":
            raise Error("EXISTS")
        node, name = self.parent_of(path)
        if name in node.children:
            raise Error("EXISTS")
        node.children[name] = Node(is_dir, mode)
        return node.children[name]

    def mkdirs(self, path):
        """Gives all that is new, top first, and what is at the path."""
        parts, node = path.split(b"/")[1:], self.root
        known = 0
        for name in parts:
            if not node.is_dir:
                raise Error("NOTDIR")
            if name not in node.children:
                break
            node, known = node.children[name], known + 1
        if not node.is_dir:
            raise Error("EXISTS" if known == len(parts) else "NOTDIR")
        new = []
        for name in parts[known:]:
            node.children[name] = Node(True)
            node = node.children[name]
            new.append(node)
        return new, node

    def resize(self, path, size, complete):
        node = self.find(path)
        if node.is_dir:
            raise Error("ISDIR")
        node.size, node.modified = size, None
        node.complete = node.complete or complete

    def move(self, source, to, replace):
        if source == b"/":
            raise Error("ROOT")
        here, name = self.parent_of(source)
        if to == b"/":
            raise Error("ROOT") if name in here.children else Error("NOTFOUND")
        there, new = self.parent_of(to)
        node = self.child(here, name)
        if new in there.children and not replace:
            raise Error("EXISTS")
        if node.is_dir and any(one is there for _, _, _, one in self.walk(b"", node)):
            raise Error("SUBTREE")
        if new in there.children:
            other = there.children[new]
            if other is node:
                return
            if source.startswith(to + b"/"):
                raise Error("NOTEMPTY")
            if other.is_dir != node.is_dir:
                raise Error("ISDIR" if other.is_dir else "NOTDIR")
            if other.is_dir and other.children:
                raise Error("NOTEMPTY")
        del here.children[name]
        there.children[new] = node

    def remove(self, path, recursive):
        if path == b"/":
            raise Error("ROOT")
        node, name = self.parent_of(path)
        gone = self.child(node, name)
        if gone.is_dir and gone.children and not recursive:
            raise Error("NOTEMPTY")
        del node.children[name]
        return gone

    def dump(self):
        """Everything that can be compared, without times."""
        return [(path, node.is_dir, node.size, node.complete, node.mode, node.owner, node.group)
                for path, _, _, node in self.walk(b"/")]


class Host:
    """The same operations on a real directory; they return nothing, and raise the same errors."""

    def __init__(self, top):
        self.top = os.fsencode(top)

    def real(self, path):
        return self.top + (b"" if path == b"/" else path)

    def do(self, call, *args):
        try:
            return call(*args)
        except OSError as error:
            raise Error(CODES[error.errno]) from None

    def mkdir(self, path):
        self.do(os.mkdir, self.real(path))

    def mkdirs(self, path):
        self.do(lambda: os.makedirs(self.real(path), exist_ok=True))

    def create(self, path):
        os.close(self.do(os.open, self.real(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY))

    def resize(self, path, size):
        self.do(os.truncate, self.real(path), size)

    def rename(self, source, to, replace):
        if replace:
            self.do(os.rename, self.real(source), self.real(to))
        elif LIBC.renameat2(AT_FDCWD, self.real(source), AT_FDCWD, self.real(to), RENAME_NOREPLACE):
            raise Error(CODES[ctypes.get_errno()])

    def remove(self, path, recursive):
        real = self.real(path)
        is_dir = os.path.isdir(real)
        self.do(shutil.rmtree if is_dir and recursive else os.rmdir if is_dir else os.unlink, real)

    def names(self, path):
        return sorted(self.do(os.listdir, self.real(path)))
