import type { FeatureDataType } from "./features.js";
import type { Input } from "./inputs.js";
import type { Path } from "./paths.js";
import type { Ready } from "./records.js";
import type { PlanEvent, Result } from "./results.js";

/** What one `map` is made with. */
export interface MapOptions<P extends Path> {
  /** Ends the `map` and its stream; `map` throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** Bounds the whole `map`; past it `map` throws a StreamError with code DEADLINE_EXCEEDED. */
  readonly timeoutMs?: number;
  /** Called when a stream is open, before an input is pulled; again for the next one, where the server asks to move. */
  readonly onReady?: (ready: Ready) => void;
  /** Called with each item's plan, before a pixel of it is decoded. */
  readonly onPlan?: (event: PlanEvent<P>) => void;
}

/** A way to turn inputs of the path `P` into features of the element type `D`. It holds nothing open between `map`s. */
export interface FeatureStream<P extends Path, D extends FeatureDataType = FeatureDataType> {
  readonly path: P;
  /** What the server answered to the latest opening; undefined before there was one. */
  readonly ready: Ready | undefined;
  /**
   * Sends the inputs over one stream, and yields exactly one result for each, failures as values.
   *
   * It reads while it writes. An input is pulled only when the server's limits have room for one more, so an iterable
   * may be endless, and load its images as they are asked for. Where the server asks to move, what was sent is awaited
   * and the rest goes over a new stream. Leaving the loop early ends the stream. No inputs at all still open it, which
   * checks the config.
   *
   * Throws StreamError where the stream is refused or lost (items without a result may then be mapped again),
   * ProtocolError, StreamMoved, the signal's reason, and what `inputs` throws.
   */
  map(
    inputs: Iterable<Input<P>> | AsyncIterable<Input<P>>,
    options?: MapOptions<P>,
  ): AsyncGenerator<Result<P, D>, void, undefined>;
}
