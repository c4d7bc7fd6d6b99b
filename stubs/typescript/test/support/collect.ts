import {
  createClient,
  DataType,
  type FeatureStream,
  type Input,
  type MapOptions,
  type Result,
  type StreamOptions,
} from "../../src/index.js";
import { fakeServer, type Script } from "./fake.js";

export type CpuResult = Result<"DEFERRED_CPU", DataType.UINT8>;
type Stream = FeatureStream<"DEFERRED_CPU", DataType.UINT8>;
export type Inputs = Iterable<Input<"DEFERRED_CPU">> | AsyncIterable<Input<"DEFERRED_CPU">>;

const OPTIONS: StreamOptions<DataType.UINT8> = { preset: "fake", dataType: DataType.UINT8 };

/** Three one-byte images. */
export const THREE = [1, 2, 3].map((byte) => Uint8Array.of(byte));

/** Runs `body` with a stream of a server that plays `script`. */
export async function withStream(script: Script, body: (stream: Stream) => Promise<void>): Promise<void> {
  const fake = await fakeServer(script);
  const client = createClient({ target: fake.target });
  try {
    await body(client.streamDeferredCpu(OPTIONS));
  } finally {
    client.close();
    await fake.close();
  }
}

/** Every result of one `map`. */
export async function collect(
  stream: Stream,
  inputs: Inputs,
  options: MapOptions<"DEFERRED_CPU"> = {},
): Promise<CpuResult[]> {
  const results: CpuResult[] = [];
  for await (const result of stream.map(inputs, options)) {
    results.push(result);
  }
  return results;
}

/** A promise, and what settles it. */
export function signalled<T = void>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
