import assert from "node:assert/strict";
import { test } from "node:test";

import { ProtocolError, StreamError, type Ready } from "../src/index.js";
import { GoawayReason } from "../src/gen/monopath/v1/event_pb.js";
import { PreprocessingPath } from "../src/gen/monopath/v1/path_pb.js";
import { collect, THREE, withStream } from "./support/collect.js";
import {
  answer,
  completion,
  config,
  FEATURES,
  features,
  good,
  goodStream,
  group,
  nextItem,
  plan,
  ready,
  summary,
  unknownArm,
  type Reply,
  type Script,
} from "./support/fake.js";

test("a good stream gives each image its result, in order, and its plan before that", async () => {
  await withStream(goodStream, async (stream) => {
    const seen: string[] = [];
    assert.equal(stream.ready, undefined);
    const onReady = (opened: Ready): unknown => seen.push(`ready ${opened.limits.maxUnfinishedItems}`);
    const results = await collect(stream, THREE, { onReady, onPlan: ({ id }) => seen.push(`plan ${id}`) });
    assert.deepEqual(
      results.map((result) => [result.id, result.ok && [...result.features], result.path]),
      [1, 2, 3].map((id) => [id, [...FEATURES], "DEFERRED_CPU"]),
    );
    assert.deepEqual(seen, ["ready 64", "plan 1", "plan 2", "plan 3"]);
    assert.equal((stream.ready as Ready | undefined)?.limits.maxUnfinishedBytes, 2 ** 28);
  });
});

test("no images at all still open a stream, and it ends well", async () => {
  await withStream(goodStream, async (stream) => {
    assert.deepEqual(await collect(stream, []), []);
    assert.notEqual(stream.ready, undefined);
  });
});

test("arms of a newer server are skipped wherever they come", async () => {
  const script: Script = async function* (requests) {
    yield unknownArm();
    for await (const reply of good(requests, unknownArm())) {
      yield reply;
      yield unknownArm();
    }
  };
  await withStream(script, async (stream) => {
    assert.equal((await collect(stream, THREE)).filter((result) => result.ok).length, 3);
  });
});

test("a group is asked for, and read as if each of its responses had come alone", async () => {
  const script: Script = async function* (requests) {
    const { value } = await requests.next();
    assert.ok(value?.payload.case === "config" && value.payload.value.output?.groupResponses === true);
    yield ready();
    const ids = [await nextItem(requests), await nextItem(requests), await nextItem(requests)];
    assert.deepEqual(ids, [1, 2, 3]);
    yield group(unknownArm(), plan(1), features(1, FEATURES.slice(0, 2)));
    yield group();
    yield group(features(1, FEATURES.slice(2), 2), completion(1), ...answer(2), plan(3));
    yield features(3);
    await nextItem(requests); // The half-close.
    yield group(completion(3), summary(3));
  };
  await withStream(script, async (stream) => {
    const planned: number[] = [];
    const results = await collect(stream, THREE, { onPlan: ({ id }) => planned.push(id) });
    assert.deepEqual(
      results.map((result) => [result.id, result.ok && [...result.features]]),
      [1, 2, 3].map((id) => [id, [...FEATURES]]),
    );
    assert.deepEqual(planned, [1, 2, 3]);
  });
});

test("a goaway in a group has the stream moved, and what came with it is kept", async () => {
  const goaway: Reply = { payload: { case: "goaway", value: { reason: GoawayReason.STREAM_AGE } } };
  const script: Script = async function* (requests, _context, streams) {
    if (streams > 1) {
      yield* good(requests);
      return;
    }
    await config(requests);
    yield ready({ maxUnfinishedItems: 1 });
    yield group(goaway, ...answer((await nextItem(requests))!));
    assert.equal(await nextItem(requests), undefined);
    yield summary(1);
  };
  await withStream(script, async (stream) => {
    assert.deepEqual(
      (await collect(stream, THREE)).map(({ id, ok }) => [id, ok]),
      [1, 2, 3].map((id) => [id, true]),
    );
  });
});

test("a group in a group breaks the grammar, after what came before it in its group", async () => {
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready();
    await nextItem(requests);
    yield group(...answer(1), group(...answer(2)));
    await new Promise(() => undefined);
  };
  await withStream(script, async (stream) => {
    const results = stream.map(THREE);
    assert.equal((await results.next()).value?.id, 1);
    await assert.rejects(results.next(), /ProtocolError: Expected a group of responses, got one with a group in it/);
  });
});

/** What the server answers to its config and one item, up to the summary, and what the client must say of it. */
const VIOLATIONS: readonly (readonly [string, readonly Reply[], RegExp])[] = [
  ["the summary counts another number of items", [...answer(1), summary(2)], /acceptedCount 1, got 2/],
  ["the summary comes before an item's end", [plan(1), summary(1)], /1 more items to end/],
  ["the end comes without a summary", answer(1), /a summary before the stream's end/],
  ["something follows the summary", [...answer(1), summary(1), plan(1)], /nothing after the summary/],
  ["ready comes twice", [ready()], /ready once/],
  ["a plan is of an item that was never sent", [plan(9)], /plan of an item without an end, got item 9/],
  ["an item is planned twice", [plan(1), plan(1)], /one plan of item 1/],
  ["features come without a plan", [features(1)], /a plan of item 1 before its features/],
  ["features leave a gap", [plan(1), features(1, Uint8Array.of(1), 1)], /a chunk from byte 0/],
  ["features overlap", [plan(1), features(1), features(1)], /a chunk from byte 3/],
  ["features are longer than planned", [plan(1), features(1, new Uint8Array(4))], /up to 3,/],
  [
    "features are missing at the completion",
    [plan(1), features(1, FEATURES.slice(1)), completion(1)],
    /3 bytes of features, got 2/,
  ],
  ["an item ends twice", [...answer(1), completion(1)], /completion of an item without an end/],
  ["an error is of an item that was never sent", [{ payload: { case: "error", value: { id: 2 } } }], /got item 2/],
  ["another label comes back", [plan(1), features(1), completion(1, "other")], /with its label/],
  [
    "features travel another way than was asked for",
    [plan(1), { payload: { case: "features", value: { id: 1, location: { case: "sharedMemory", value: {} } } } }],
    /inline, got sharedMemory/,
  ],
  [
    "a plan is of another path",
    [changedPlan((value) => (value.path = PreprocessingPath.LOCAL))],
    /path DEFERRED_CPU, got LOCAL/,
  ],
  [
    "a plan has another element type",
    [changedPlan((value) => (value.plan.features.dataType = 2))],
    /element type 1, got 2/,
  ],
  [
    "a plan contradicts its shape",
    [changedPlan((value) => (value.plan.features.sizeBytes = 4))],
    /3 bytes, as its shape says/,
  ],
  [
    "a plan is over the limit of features",
    [changedPlan((value) => Object.assign(value.plan.features, { shape: [1n << 21n], sizeBytes: 1 << 21 }))],
    /at most 1048576/,
  ],
  ["a plan has no geometry", [changedPlan((value) => delete value.plan.padding)], /sizes, padding and grid/],
];

for (const [what, replies, message] of VIOLATIONS) {
  test(`a server breaks the grammar where ${what}`, async () => {
    const script: Script = async function* (requests) {
      await config(requests);
      yield ready();
      await nextItem(requests);
      await nextItem(requests); // The half-close.
      yield* replies;
    };
    await withStream(script, async (stream) => {
      await assert.rejects(collect(stream, [Uint8Array.of(1)]), (error) => {
        assert.ok(error instanceof ProtocolError, String(error));
        assert.match(error.message, message);
        return true;
      });
    });
  });
}

test("a server that answers before it is ready breaks the grammar", async () => {
  const script: Script = async function* (requests) {
    await config(requests);
    yield plan(1);
  };
  await withStream(script, (stream) => assert.rejects(collect(stream, THREE), /ProtocolError: Expected ready first/));
});

test("a server that ends a stream before the client half-closed breaks the grammar", async () => {
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready();
    yield summary(0);
  };
  const endless = async function* (): AsyncGenerator<Uint8Array> {
    await new Promise(() => undefined);
    yield new Uint8Array();
  };
  await withStream(script, (stream) => assert.rejects(collect(stream, endless()), /summary after the half-close/));
});

test("items that end in another order than they were sent break the grammar of an ordered stream", async () => {
  const script: Script = async function* (requests) {
    await config(requests);
    yield ready();
    while ((await nextItem(requests)) !== undefined);
    yield* [...answer(2), ...answer(1)];
  };
  await withStream(script, (stream) =>
    assert.rejects(collect(stream, THREE), /Expected item 1 to end first, as sent, got the end of item 2/),
  );
});

test("a goaway before ready may end a stream without a summary, and the next stream is used", async () => {
  const script: Script = async function* (requests, _context, streams) {
    if (streams === 1) {
      await config(requests);
      yield { payload: { case: "goaway", value: { reason: GoawayReason.DRAINING } } };
    } else {
      yield* good(requests);
    }
  };
  await withStream(script, async (stream) => assert.equal((await collect(stream, THREE)).length, 3));
});

test("a refusal is an error with its reason, not a broken grammar", async () => {
  const script: Script = async function* (requests) {
    await config(requests);
    const violations = [{ field: "config.output", description: "Expected one, got none" }];
    yield { payload: { case: "failure", value: { reason: 1, message: "The config is invalid", violations } } };
    await requests.next();
  };
  await withStream(script, async (stream) => {
    await assert.rejects(collect(stream, THREE), (error) => {
      assert.ok(error instanceof StreamError);
      assert.deepEqual([error.code, error.reason, error.retryable], ["INVALID_ARGUMENT", "CONFIG_INVALID", false]);
      assert.deepEqual(error.violations, [{ field: "config.output", description: "Expected one, got none" }]);
      assert.match(error.message, /CONFIG_INVALID: The config is invalid\n {2}config.output: Expected one, got none/);
      return true;
    });
  });
});

interface PlanFields {
  path: PreprocessingPath;
  plan: { padding?: unknown; features: { dataType: number; sizeBytes: number } };
}

function changedPlan(change: (value: PlanFields) => void): Reply {
  const reply = plan(1);
  change(reply.payload?.value as unknown as PlanFields);
  return reply;
}
