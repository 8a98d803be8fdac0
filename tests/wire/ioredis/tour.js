// SPDX-License-Identifier: Apache-2.0
// tour.js PORT PROTOCOL - ioredis as a real client; exits with 1 and says why at the first surprise.
"use strict";
const assert = require("node:assert/strict");
const Redis = require("ioredis");

const [port, protocol] = process.argv.slice(2).map(Number);
const options = { port, host: "127.0.0.1", retryStrategy: null };
if (protocol === 3) options.protocol = 3;

async function strings(redis) {
  assert.equal(await redis.set("s", "wörld\r\n\0"), "OK");
  assert.equal(await redis.get("s"), "wörld\r\n\0");
  assert.equal(await redis.get("none"), null);
  assert.equal(await redis.set("s", "x", "NX"), null);
  assert.equal(await redis.set("s", "2", "PX", 100000, "XX"), "OK");
  assert.equal(await redis.incrby("s", 40), 42);
  assert.ok((await redis.pttl("s")) > 0);
  assert.deepEqual(await redis.mget("s", "none"), ["42", null]);
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  await redis.set(bytes, bytes);
  assert.deepEqual(await redis.getBuffer(bytes), bytes);
}

async function collections(redis) {
  assert.equal(await redis.hset("h", { a: "1", b: "2" }), 2);
  assert.deepEqual(await redis.hgetall("h"), { a: "1", b: "2" });
  assert.equal(await redis.hincrby("h", "a", 4), 5);
  assert.equal(await redis.rpush("l", "a", "b", "c"), 3);
  assert.deepEqual(await redis.lrange("l", 0, -1), ["a", "b", "c"]);
  assert.equal(await redis.lpop("l"), "a");
  assert.equal(await redis.sadd("t", "x", "y", "x"), 2);
  assert.deepEqual((await redis.smembers("t")).sort(), ["x", "y"]);
  assert.equal(await redis.zadd("z", 1, "a", 2.5, "b"), 2);
  assert.deepEqual(await redis.zrange("z", 0, -1), ["a", "b"]);
  assert.equal(Number(await redis.zscore("z", "b")), 2.5);
  assert.equal(await redis.zrank("z", "b"), 1);
  await assert.rejects(redis.get("h"), /^ReplyError: WRONGTYPE /);
}

async function scans(redis) {
  await redis.mset(Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`scan:${i}`, i])));
  const seen = new Set();
  for await (const keys of redis.scanStream({ match: "scan:*", count: 20 })) {
    keys.forEach((key) => seen.add(key));
  }
  assert.equal(seen.size, 300);
}

async function pipelines(redis) {
  const replies = await redis.pipeline().set("p", "1").incr("p").hget("p", "f").get("p").exec();
  assert.deepEqual([replies[0], replies[1], replies[3]], [[null, "OK"], [null, 2], [null, "2"]]);
  assert.match(replies[2][0].message, /^WRONGTYPE /);
  const many = await Promise.all(Array.from({ length: 1000 }, () => redis.incr("n")));
  assert.deepEqual(many, Array.from({ length: 1000 }, (_, i) => i + 1));
}

async function transactions(redis) {
  assert.deepEqual(await redis.multi().set("m", "1").incr("m").exec(), [[null, "OK"], [null, 2]]);
  const other = redis.duplicate();
  await redis.watch("m");
  await other.set("m", "changed");
  assert.equal(await redis.multi().set("m", "lost").exec(), null);
  assert.equal(await redis.get("m"), "changed");
  await other.quit();
}

async function messages(redis) {
  const listener = redis.duplicate();
  const received = [];
  const done = new Promise((resolve) => {
    listener.on("message", (channel, text) => received.push([channel, text]));
    listener.on("pmessage", (pattern, channel, text) => {
      received.push([pattern, channel, text]);
      resolve();
    });
  });
  assert.equal(await listener.subscribe("news"), 1);
  assert.equal(await listener.psubscribe("n*"), 2);
  assert.equal(await redis.publish("news", "hello"), 2);
  await done;
  assert.deepEqual(received, [["news", "hello"], ["n*", "news", "hello"]]);
  await listener.quit();
}

async function blocking(redis) {
  const waiter = redis.duplicate();
  const popped = waiter.blpop("queue", 10);
  while ((await redis.client("LIST")).match(/cmd=blpop/) === null);
  await redis.rpush("queue", "job");
  assert.deepEqual(await popped, ["queue", "job"]);
  assert.equal(await waiter.brpop("queue", 0.01), null);
  await waiter.quit();
}

async function main() {
  const redis = new Redis(options);
  await redis.flushall();
  const parts = [strings, collections, scans, pipelines, transactions, messages, blocking];
  for (const part of parts) {
    await part(redis);
    console.log(part.name);
  }
  await redis.quit();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
