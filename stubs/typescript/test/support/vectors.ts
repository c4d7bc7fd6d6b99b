// The contract's vectors, and what it means to match one: tests/contract/vectors/README.md, said once more in
// TypeScript.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";

import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

import type { Outcome, Status, Vector } from "../../conformance/run.js";
import { ROOT } from "./server.js";

export interface FullVector extends Vector {
  readonly cuda?: boolean;
  readonly segments?: JsonObject;
  readonly server?: string;
  readonly expected_events: readonly JsonObject[];
  readonly expected_features?: Readonly<Record<string, string>>;
  readonly expected_status: { readonly code: string; readonly reason: string; readonly violations: readonly string[] };
}

/** Vectors for a real server without CUDA, except those whose shared memory the conformance runner has to make first. */
export function loadVectors(): FullVector[] {
  const folder = process.env["MONOPATH_VECTORS"] ?? `${ROOT}tests/contract/vectors`;
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const vectors = files.map((name) => JSON.parse(readFileSync(`${folder}/${name}`, "utf8")) as FullVector);
  return vectors.filter(
    (vector) => vector.cuda !== true && vector.segments === undefined && vector.server === undefined,
  );
}

/** Says in words where an outcome is not what the vector expects; empty where it is. */
export function mismatches(vector: FullVector, outcome: Outcome): string[] {
  if ("skipped" in outcome) {
    return [`Expected an outcome, got one that was skipped: ${outcome.skipped}`];
  }
  const isFeatures = (event: JsonValue): boolean => typeof event === "object" && event !== null && "features" in event;
  const isStream = vector.method.startsWith("Stream");
  const features = isStream ? outcome.responses.filter(isFeatures) : [];
  const events = isStream ? outcome.responses.filter((event) => !isFeatures(event)) : outcome.responses;
  return [
    ...statusMismatches(vector, outcome.status),
    ...eventMismatches(vector.expected_events, events as JsonObject[]),
    ...featureMismatches(vector.expected_features ?? {}, features as unknown as FeaturesEvent[]),
  ];
}

interface FeaturesEvent {
  readonly features: { readonly id: number; readonly chunk: { readonly data: string } };
}

function statusMismatches({ expected_status: expected }: FullVector, status: Status): string[] {
  const found = [status.code, status.reason, ...status.violations.map(({ field }) => field).sort()];
  const wanted = [expected.code, expected.reason, ...[...expected.violations].sort()];
  const domain = status.reason === "" ? "" : "monopath.v1";
  return [...differences("status", wanted, found), ...differences("domain", domain, status.domain)];
}

function eventMismatches(expected: readonly JsonObject[], found: readonly JsonObject[]): string[] {
  const wanted = lanes(expected);
  const seen = lanes(found);
  return [...new Set([...wanted.keys(), ...seen.keys()])].flatMap((lane) => {
    const events = seen.get(lane) ?? [];
    const failed = events.some((event) => "error" in event);
    return differences(lane, wanted.get(lane) ?? [], failed ? events.filter((event) => !("plan" in event)) : events);
  });
}

/** Events of one item have an order, and so have those of the stream; between them there is none. */
function lanes(events: readonly JsonObject[]): Map<string, JsonObject[]> {
  const found = new Map<string, JsonObject[]>();
  for (const event of events) {
    const payload = Object.values(event)[0];
    const isOfItem = typeof payload === "object" && payload !== null && !Array.isArray(payload) && "id" in payload;
    const lane = isOfItem ? `item ${String(payload["id"])}` : "stream";
    found.set(lane, [...(found.get(lane) ?? []), event]);
  }
  return found;
}

function featureMismatches(expected: Readonly<Record<string, string>>, events: readonly FeaturesEvent[]): string[] {
  const chunks = new Map<string, Buffer[]>();
  for (const { features } of events) {
    const id = String(features.id);
    chunks.set(id, [...(chunks.get(id) ?? []), Buffer.from(features.chunk.data, "base64")]);
  }
  const digests = [...chunks].map(([id, data]) => [id, createHash("sha256").update(Buffer.concat(data)).digest("hex")]);
  const found = Object.fromEntries(digests) as JsonObject;
  return [
    ...differences("features", { ...expected }, found),
    ...differences("features", Object.keys(expected).sort(), Object.keys(found).sort()),
  ];
}

/** A message matches if all that is expected of it is there; a list only with the same length. */
function differences(where: string, expected: JsonValue, found: JsonValue | undefined): string[] {
  if (Array.isArray(expected)) {
    if (!Array.isArray(found) || found.length !== expected.length) {
      return [`${where}: Expected ${JSON.stringify(expected)}, got ${JSON.stringify(found)}`];
    }
    return expected.flatMap((one, index) => differences(`${where}[${index}]`, one, found[index]));
  }
  if (typeof expected === "object" && expected !== null) {
    const other = typeof found === "object" && found !== null && !Array.isArray(found) ? found : {};
    return Object.entries(expected).flatMap(([key, value]) => differences(`${where}.${key}`, value, other[key]));
  }
  return expected === found ? [] : [`${where}: Expected ${JSON.stringify(expected)}, got ${JSON.stringify(found)}`];
}
