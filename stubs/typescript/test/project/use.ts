// A project of its own that uses the packed package, with strict types and every library's declarations checked.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

import { createClient, DataType, type FeatureStream } from "monopath";
import { PreprocessingPath } from "monopath/v1/path_pb.js";

const [target = "", file = ""] = process.argv.slice(2);
const client = createClient({ target });
const stream = client.streamDeferredCpu({ preset: "kimi-k2.5", dataType: DataType.FLOAT16 });
for await (const result of stream.map([readFileSync(file)], { timeoutMs: 60_000 })) {
  if (result.ok) {
    const features: Uint16Array = result.features;
    console.log(createHash("sha256").update(features).digest("hex"));
  }
}
client.close();

// @ts-expect-error
const other: FeatureStream<"LOCAL"> = stream;
const path: keyof typeof PreprocessingPath = other.path;
void path;
