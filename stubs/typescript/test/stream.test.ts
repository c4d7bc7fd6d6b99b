import assert from "node:assert/strict";
import { test } from "node:test";

import { Code, ConnectError } from "@connectrpc/connect";

import {
  createClient,
  DataType,
  PixelFormat,
  ResultOrder,
  StreamError,
  StreamMoved,
  type RawImage,
} from "../src/index.js";
import type { ItemErrorReason } from "../src/gen/monopath/v1/error_pb.js";
import { GoawayReason } from "../src/gen/monopath/v1/event_pb.js";
import { ErrorInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { collect, signalled, THREE, withStream } from "./support/collect.js";
import {
  answer,
  config,
  fakeServer,
  good,
  goodStream,
  nextItem,
  ready,
  summary,
  unknownArm,
  type Reply,
  type Script,
} from "./support/fake.js";

const goaway: Reply = { payload: { case: "goaway", value: { reason: GoawayReason.STREAM_AGE } } };

/** Takes a config and items, and answers none of them. */
const silentStream: Script = async function* (requests) {
  await config(requests);
  yield ready();
  while ((await nextItem(requests)) !== undefined);
  await new Promise(() => undefined);
};

test("the source is pulled only as the server's limit of unfinished items allows", async () => {
  const limit = 2;
  let pulled = 0;
  let ended = 0;
  const source = function* (): Generator<Uint8Array> {
    while (pulled < 10) {
      pulled++;
      assert.ok(
        pulled <= ended + limit,
        `Expected at most ${limit} pulled images without an end, got ${pulled - ended}`,
      );
      yield Uint8Array.of(pulled);
    }
  };
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready({ maxUnfinishedItems: limit });
    for (let item = 1; item <= 10; item++) {
      // The limit is used, too: nothing is answered before as many are there.
      if (item % limit === 1) {
        await nextItem(requests);
        await nextItem(requests);
      }
      ended++;
      yield* answer(item);
    }
    yield summary(10);
  };
  await withStream(script, async (stream) => assert.equal((await collect(stream, source())).length, 10));
});

test("no more bytes are sent than the limit of unfinished bytes allows, except of one image alone", async () => {
  const limit = 10;
  const sizes = [6, 6, 4, 30, 5, 5, 5];
  const unfinished = new Set<number>();
  const source = function* (): Generator<Uint8Array> {
    for (const [index, size] of sizes.entries()) {
      // The next one is pulled only when all before it were sent.
      const bytes = [...unfinished].reduce((sum, id) => sum + sizes[id - 1]!, 0);
      assert.ok(
        bytes <= limit || unfinished.size === 1,
        `Expected at most ${limit} bytes without an end, got ${bytes}`,
      );
      unfinished.add(index + 1);
      yield new Uint8Array(size);
    }
  };
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready({ maxUnfinishedBytes: BigInt(limit) });
    // The limit is used, too: as many as fit come without an answer. 6; 6 and 4; 30 alone; 5 and 5; 5.
    for (const count of [1, 2, 1, 2, 1]) {
      const ids: number[] = [];
      while (ids.length < count) {
        ids.push((await nextItem(requests))!);
      }
      for (const id of ids) {
        unfinished.delete(id);
        yield* answer(id);
      }
    }
    yield summary(sizes.length);
  };
  await withStream(script, async (stream) => assert.equal((await collect(stream, source())).length, sizes.length));
});

test("responses are read while requests still wait to be written", async () => {
  // Each side has more to write than connection and stream take unread: who only wrote would wait for ever.
  const images = Array.from({ length: 60 }, () => new Uint8Array(1 << 19));
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready({ maxUnfinishedItems: 1000 });
    for (let count = 0; ; count++) {
      const id = await nextItem(requests);
      if (id === undefined) {
        yield summary(count);
        return;
      }
      yield unknownArm(1 << 20);
      yield* answer(id);
    }
  };
  await withStream(script, async (stream) => assert.equal((await collect(stream, images)).length, images.length));
});

test("where the server asks to move, what was sent is awaited, and the rest goes to a new stream once", async () => {
  const taken: number[][] = [];
  const script: Script = async function* (requests, _context, stream) {
    await config(requests);
    yield ready({ maxUnfinishedItems: 2 });
    const ids: number[] = [];
    taken[stream] = ids;
    for (let id = await nextItem(requests); id !== undefined; id = await nextItem(requests)) {
      ids.push(id);
      if (ids.length === 2) {
        yield goaway;
      }
      // The answer comes behind the goaway: what was sent is still answered.
      yield* answer(id);
    }
    yield summary(ids.length);
  };
  const images = Array.from({ length: 7 }, (_, index) => Uint8Array.of(index));
  await withStream(script, async (stream) => {
    const results = await collect(stream, images);
    assert.deepEqual(
      results.map((result) => [result.id, result.ok]),
      images.map((_, index) => [index + 1, true]),
    );
  });
  assert.deepEqual(taken.flat(), [1, 2, 3, 4, 5, 6, 7]);
  assert.ok(taken.length > 2, `Expected several streams, got ${taken.length - 1}`);
});

test("no new stream is opened where there is nothing left to send", async () => {
  let streams = 0;
  const script: Script = async function* (requests, _context, stream) {
    streams = stream;
    yield* good(requests, goaway);
  };
  await withStream(script, async (stream) => assert.deepEqual(await collect(stream, []), []));
  assert.equal(streams, 1);
});

test("a server whose every stream asks to move is left after three", async () => {
  let streams = 0;
  const script: Script = async function* (requests, _context, stream) {
    streams = stream;
    await config(requests);
    yield goaway;
    yield ready();
    while ((await requests.next()).done !== true);
    yield summary(0);
  };
  await withStream(script, (stream) => assert.rejects(collect(stream, THREE), StreamMoved));
  assert.equal(streams, 3);
});

test("a server that stops refuses the new stream for a while, and is asked again", async () => {
  const script: Script = async function* (requests, _context, stream) {
    if (stream === 2) {
      const info = { desc: ErrorInfoSchema, value: { reason: "DRAINING", domain: "monopath.v1" } };
      throw new ConnectError("The server is stopping", Code.Unavailable, undefined, [info]);
    }
    await config(requests);
    yield ready();
    const id = (await nextItem(requests))!;
    yield* stream === 1 ? [goaway, ...answer(id)] : answer(id);
    let count = 1;
    for (let next = await nextItem(requests); next !== undefined; next = await nextItem(requests)) {
      yield* answer(next);
      count++;
    }
    yield summary(count);
  };
  const answered = signalled();
  const images = async function* (): AsyncGenerator<Uint8Array> {
    yield Uint8Array.of(1);
    await answered.promise; // By now the goaway was read.
    yield Uint8Array.of(2);
  };
  await withStream(script, async (stream) => {
    const ids: number[] = [];
    for await (const result of stream.map(images())) {
      ids.push(result.id);
      answered.resolve();
    }
    assert.deepEqual(ids, [1, 2]);
  });
});

test("the first stream's refusal is thrown at once, with the reason of its status", async () => {
  let streams = 0;
  const script: Script = (_requests, _context, stream) => {
    streams = stream;
    const info = { desc: ErrorInfoSchema, value: { reason: "OVERLOADED", domain: "monopath.v1" } };
    throw new ConnectError("No room", Code.ResourceExhausted, undefined, [info]);
  };
  await withStream(script, async (stream) => {
    await assert.rejects(collect(stream, THREE), (error) => {
      assert.ok(error instanceof StreamError);
      assert.deepEqual([error.code, error.reason, error.retryable], ["RESOURCE_EXHAUSTED", "OVERLOADED", true]);
      return true;
    });
  });
  assert.equal(streams, 1);
});

test("credentials that the server does not take are thrown, and not tried again on a new stream", async () => {
  let streams = 0;
  const script: Script = async function* (requests, _context, stream) {
    streams = stream;
    if (stream > 1) {
      const info = { desc: ErrorInfoSchema, value: { reason: "CREDENTIALS_INVALID", domain: "monopath.v1" } };
      throw new ConnectError("Expected a known token", Code.Unauthenticated, undefined, [info]);
    }
    await config(requests);
    yield ready({ maxUnfinishedItems: 1 });
    yield goaway;
    yield* answer((await nextItem(requests))!);
    while ((await requests.next()).done !== true);
    yield summary(1);
  };
  await withStream(script, (stream) =>
    assert.rejects(collect(stream, THREE), {
      name: "StreamError",
      code: "UNAUTHENTICATED",
      reason: "CREDENTIALS_INVALID",
      retryable: false,
    }),
  );
  assert.equal(streams, 2);
});

test("a new stream that opens to another config is not used", async () => {
  const script: Script = async function* (requests, _context, stream) {
    await config(requests);
    yield ready({ maxUnfinishedItems: 1 }, new Uint8Array(32).fill(stream));
    const id = await nextItem(requests);
    yield goaway;
    yield { payload: { case: "error", value: { id: id!, reason: 4 } } };
    while ((await requests.next()).done !== true);
    yield { payload: { case: "summary", value: { acceptedCount: 1, failedCount: 1 } } };
  };
  await withStream(script, (stream) => assert.rejects(collect(stream, THREE), /StreamMoved: Expected the config 0101/));
});

test("a lost stream gives the results that came before, then an error", async () => {
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready();
    yield* answer((await nextItem(requests))!);
    throw new ConnectError("gone", Code.Unavailable);
  };
  await withStream(script, async (stream) => {
    const results = stream.map(THREE);
    assert.equal((await results.next()).value?.id, 1);
    await assert.rejects(results.next(), { name: "StreamError", code: "UNAVAILABLE", reason: "", retryable: true });
    assert.deepEqual(await results.next(), { done: true, value: undefined });
  });
});

test("a failure told in the stream speaks where the status says nothing", async () => {
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready();
    yield { payload: { case: "failure", value: { reason: 13, message: "Internal error" } } };
    throw new ConnectError("stream reset", Code.Unknown);
  };
  await withStream(script, (stream) =>
    assert.rejects(collect(stream, THREE), {
      code: "INTERNAL",
      reason: "INTERNAL",
      message: /INTERNAL: Internal error/,
    }),
  );
});

test("reasons and violations of a newer server are kept as they came", async () => {
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready();
    const id = (await nextItem(requests))!;
    const reason = 99 as ItemErrorReason;
    yield { payload: { case: "error", value: { id, reason, message: "new", retryAfter: { nanos: 1_500_000 } } } };
    await nextItem(requests);
    yield { payload: { case: "summary", value: { acceptedCount: 1, failedCount: 1 } } };
  };
  await withStream(script, async (stream) => {
    const [result] = await collect(stream, [Uint8Array.of(1)]);
    assert.ok(result !== undefined && !result.ok);
    const { reason, code, message, retryable, retryAfterMs } = result.error;
    assert.deepEqual([reason, code, message, retryable, retryAfterMs], ["99", "UNKNOWN", "new", true, 1.5]);
  });
});

test("an image that no request can carry is its own error, in its turn, and is not sent", async () => {
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready({ maxRequestBytes: 1000 });
    const ids = [await nextItem(requests), await nextItem(requests), await nextItem(requests)];
    assert.deepEqual(ids, [1, 3, undefined]);
    yield* [...answer(1), ...answer(3), summary(2)];
  };
  const images = [new Uint8Array(10), new Uint8Array(1000), new Uint8Array(10), new Uint8Array(2000)];
  await withStream(script, async (stream) => {
    const results = await collect(stream, images);
    assert.deepEqual(
      results.map((result) => [result.id, result.ok || result.error.reason]),
      [
        [1, true],
        [2, "IMAGE_BYTES_EXCEEDED"],
        [3, true],
        [4, "IMAGE_BYTES_EXCEEDED"],
      ],
    );
  });
});

test("an image that is refused at this side has its result before the next one is there", async () => {
  const refused = signalled();
  const images = async function* (): AsyncGenerator<Uint8Array> {
    yield new Uint8Array(2 << 20);
    await refused.promise;
    yield Uint8Array.of(1);
  };
  await withStream(goodStream, async (stream) => {
    for await (const result of stream.map(images())) {
      if (!result.ok) {
        refused.resolve();
      }
    }
  });
});

test("a signal ends the stream at both sides, and its reason is thrown", async () => {
  const cancelled = signalled();
  const stop = new AbortController();
  const script: Script = async function* (requests, context) {
    context.signal.addEventListener("abort", () => cancelled.resolve());
    await config(requests);
    yield ready();
    await nextItem(requests);
    stop.abort(new Error("enough"));
    await new Promise(() => undefined);
  };
  await withStream(script, async (stream) => {
    await assert.rejects(collect(stream, THREE, { signal: stop.signal }), /enough/);
    await cancelled.promise;
    await assert.rejects(collect(stream, THREE, { signal: stop.signal }), /enough/);
  });
});

test("a deadline is an error with its code", async () => {
  await withStream(silentStream, (stream) =>
    assert.rejects(collect(stream, THREE, { timeoutMs: 50 }), { name: "StreamError", code: "DEADLINE_EXCEEDED" }),
  );
});

test("leaving the loop early ends the stream and closes the source", async () => {
  const cancelled = signalled();
  const closed = signalled();
  const script: Script = async function* (requests, context) {
    context.signal.addEventListener("abort", () => cancelled.resolve());
    await config(requests);
    yield ready({ maxUnfinishedItems: 1 });
    for (let id = await nextItem(requests); id !== undefined; id = await nextItem(requests)) {
      yield* answer(id);
    }
  };
  const endless = function* (): Generator<Uint8Array> {
    try {
      for (;;) {
        yield Uint8Array.of(1);
      }
    } finally {
      closed.resolve();
    }
  };
  await withStream(script, async (stream) => {
    for await (const result of stream.map(endless())) {
      assert.equal(result.id, 1);
      break;
    }
    await Promise.all([cancelled.promise, closed.promise]);
  });
});

test("what the source throws is thrown", async () => {
  const broken = function* (): Generator<Uint8Array> {
    yield Uint8Array.of(1);
    throw new RangeError("no such file");
  };
  await withStream(silentStream, (stream) => assert.rejects(collect(stream, broken()), /RangeError: no such file/));
});

test("what is no image of the stream's path is a TypeError that says what to give", async () => {
  const wrong: [unknown, RegExp][] = [
    ["photo.jpg", /bytes of its file \(Uint8Array\) or a RawImage, got string/],
    [{ pixels: [1, 2] }, /got Object/],
    [null, /got object/],
    [{ path: "DEFERRED_CUDA", image: new Uint8Array() }, /path DEFERRED_CPU, got one of DEFERRED_CUDA/],
  ];
  for (const [input, message] of wrong) {
    await withStream(silentStream, (stream) =>
      assert.rejects(collect(stream, [input as Uint8Array]), { name: "TypeError", message }),
    );
  }
});

test("labels, digests and raw pixels are sent as they were given", async () => {
  const pixels = new Uint8ClampedArray(Uint8Array.of(9, 9, 1, 2, 3).buffer, 2);
  const image: RawImage = { pixels, widthPx: 1, heightPx: 1, format: PixelFormat.RGB8 };
  const digest = new Uint8Array(32).fill(1);
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready();
    const { value } = await requests.next();
    const item = value?.payload.case === "item" ? value.payload.value : undefined;
    assert.deepEqual([item?.label, item?.traceparent, item?.expectedSha256], ["one", "00-1-2-00", digest]);
    const content = item?.image?.content;
    assert.ok(content?.case === "pixels");
    assert.deepEqual([content.value.widthPx, content.value.format], [1, PixelFormat.RGB8]);
    assert.deepEqual(content.value.location.value, Uint8Array.of(1, 2, 3));
    await nextItem(requests);
    yield* answer(1).map(labelled);
    yield summary(1);
  };
  const labelled = (reply: Reply): Reply => {
    if (reply.payload?.case === "completion") {
      reply.payload.value.label = "one";
    }
    return reply;
  };
  await withStream(script, async (stream) => {
    const item = {
      path: "DEFERRED_CPU",
      image,
      label: "one",
      traceparent: "00-1-2-00",
      expectedSha256: digest,
    } as const;
    const [result] = await collect(stream, [item]);
    assert.equal(result?.label, "one");
  });
});

test("the config is sent as it was said, and its kernel and orientation replace its own", async () => {
  const seen = signalled<unknown>();
  const fake = await fakeServer(async function* (requests) {
    const { value } = await requests.next();
    seen.resolve(value?.payload.value);
    yield ready();
    await requests.next();
    yield summary(0);
  });
  const client = createClient({ target: fake.target, headers: { "x-who": "test" } });
  try {
    const config = { case: "kimi", value: { patchSize: 14, imageMean: { red: 0.5 } } } as const;
    const options = { config, dataType: DataType.UINT8, order: ResultOrder.AS_COMPLETED, bypassCache: true } as const;
    for await (const _ of client.streamDeferredCpu({ ...options, resampleKernel: 1, orientationPolicy: 2 }).map([]));
    const { processor, output } = (await seen.promise) as {
      processor: { source: { case: string; value: Record<string, unknown> } };
      output: Record<string, unknown>;
    };
    assert.equal(processor.source.case, "kimi");
    assert.deepEqual(
      [
        processor.source.value["patchSize"],
        processor.source.value["resampleKernel"],
        processor.source.value["orientationPolicy"],
      ],
      [14, 1, 2],
    );
    assert.deepEqual([output["dataType"], output["order"], output["bypassCache"]], [1, 1, true]);
  } finally {
    client.close();
    await fake.close();
  }
});

test("a processor must be said in exactly one form, and an element type must be one", () => {
  const client = createClient({ target: "127.0.0.1:1" });
  const open = (options: unknown) => () =>
    client.streamDeferredCpu(options as { preset: string; dataType: DataType.UINT8 });
  assert.throws(open({ dataType: DataType.UINT8 }), /exactly one of preset, config and checkpointJson, got none/);
  assert.throws(open({ preset: "a", checkpointJson: "{}", dataType: DataType.UINT8 }), /got preset and checkpointJson/);
  assert.throws(open({ preset: "a" }), /dataType to be one of DataType, got undefined/);
});

test("where nobody listens, the error says so, for streams and unary calls", async () => {
  const fake = await fakeServer(goodStream);
  await fake.close();
  const client = createClient({ target: fake.target });
  const nobody = { name: "StreamError", code: "UNAVAILABLE", retryable: true };
  const stream = client.streamDeferredCpu({ preset: "fake", dataType: DataType.UINT8 });
  await assert.rejects(collect(stream, THREE), nobody);
  await assert.rejects(client.getCapabilities(), nobody);
  client.close();
});

test("a closed client breaks off what is open, and takes no more calls", async () => {
  const fake = await fakeServer(silentStream);
  const client = createClient({ target: fake.target });
  const stream = client.streamDeferredCpu({ preset: "fake", dataType: DataType.UINT8 });
  const closed = { name: "StreamError", code: "CANCELLED" };
  await assert.rejects(collect(stream, THREE, { onReady: () => client.close() }), closed);
  await assert.rejects(collect(stream, THREE), { ...closed, message: /The client is closed/ });
  await fake.close();
});
