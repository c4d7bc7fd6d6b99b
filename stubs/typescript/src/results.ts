import type { ItemError } from "./errors.js";
import type { FeatureArray, FeatureDataType } from "./features.js";
import type { CacheOutcome } from "./gen/monopath/v1/event_pb.js";
import type { Path } from "./paths.js";
import type { GridThw, ImagePlan, ItemTimings, Provenance } from "./records.js";

interface ItemEnd<P extends Path> {
  /** The item's place among the inputs of its `map`, counted from 1. */
  readonly id: number;
  /** The item's label, as it was sent. */
  readonly label: string;
  /** The path that the item took. */
  readonly path: P;
}

/** The good end of an item: its features. */
export interface Completed<P extends Path, D extends FeatureDataType = FeatureDataType> extends ItemEnd<P> {
  readonly ok: true;
  readonly error?: undefined;
  readonly dataType: D;
  /** The features, row-major; `shape` is that of the plan. */
  readonly features: FeatureArray<D>;
  readonly shape: readonly number[];
  readonly plan: ImagePlan;
  /** Patch grid: frames, patches per column, patches per line. Undefined for a family that has none. */
  readonly gridThw: GridThw | undefined;
  /** Tokens that the encoder's output will have for this image; 0 where the config does not say how many. */
  readonly tokenCount: number;
  readonly provenance: Provenance;
  readonly timings: ItemTimings;
  /** What the server's cache had to do with the features. Absent on LOCAL, which has none. */
  readonly cache: CacheOutcome | undefined;
}

/** The bad end of an item. Its stream and its neighbours go on. */
export interface Failed<P extends Path> extends ItemEnd<P> {
  readonly ok: false;
  readonly error: ItemError;
  /** The item's plan, if it failed after that was made. */
  readonly plan: ImagePlan | undefined;
}

/** The one end of an item. `ok` tells which. */
export type Result<P extends Path, D extends FeatureDataType = FeatureDataType> = Completed<P, D> | Failed<P>;

/** What will come of an item, told before a pixel of it is decoded. */
export interface PlanEvent<P extends Path> extends ItemEnd<P> {
  readonly plan: ImagePlan;
}

/** Features of several images of one path, as an encoder reads them. */
export interface FeatureBatch<P extends Path, D extends FeatureDataType = FeatureDataType> {
  readonly path: P;
  readonly dataType: D;
  /** Rows of all images, one after another. */
  readonly features: FeatureArray<D>;
  /** The images' shape, with the sum of their rows. */
  readonly shape: readonly number[];
  /** Patch grid of each image; empty for a family that has none. */
  readonly gridThws: readonly GridThw[];
  /** Rows of each image. */
  readonly rowCounts: readonly number[];
  readonly tokenCounts: readonly number[];
  readonly ids: readonly number[];
}

type IsUnion<T, All = T> = T extends All ? ([All] extends [T] ? false : true) : never;
type OnlyOne<T> = true extends IsUnion<T> ? "Expected results of one path and one element type" : unknown;

/**
 * Puts the features of one or more images after each other. Results of different paths or element types do not compile;
 * from plain JavaScript, or of different configs, they throw a RangeError.
 */
export function concatenate<P extends Path, D extends FeatureDataType>(
  results: readonly Completed<P, D>[] & OnlyOne<P> & OnlyOne<D>,
): FeatureBatch<P, D> {
  const ordered: readonly Completed<P, D>[] = results;
  const first = ordered[0];
  if (first === undefined) {
    throw new RangeError("Expected at least one result, got none");
  }
  const kind = (result: Completed<P, D>): string =>
    [result.path, result.dataType, Buffer.from(result.provenance.configSha256).toString("hex")].join(" ");
  const other = ordered.find((result) => kind(result) !== kind(first));
  if (other !== undefined) {
    throw new RangeError(
      `Expected results of one path, element type and config, got ${kind(first)} and ${kind(other)}`,
    );
  }
  const length = ordered.reduce((sum, result) => sum + result.features.length, 0);
  const features = new (first.features.constructor as new (length: number) => FeatureArray<D>)(length);
  let offset = 0;
  for (const result of ordered) {
    features.set(result.features, offset);
    offset += result.features.length;
  }
  const rowCounts = ordered.map((result) => result.shape[0] ?? 0);
  return {
    path: first.path,
    dataType: first.dataType,
    features,
    shape: [rowCounts.reduce((sum, count) => sum + count, 0), ...first.shape.slice(1)],
    gridThws: ordered.flatMap((result) => (result.gridThw === undefined ? [] : [result.gridThw])),
    rowCounts,
    tokenCounts: ordered.map((result) => result.tokenCount),
    ids: ordered.map((result) => result.id),
  };
}
