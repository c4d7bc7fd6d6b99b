import { unlessAborted } from "./abort.js";
import { StreamError, StreamMoved, type StatusCode } from "./errors.js";
import type { FeatureDataType } from "./features.js";
import type { Input } from "./inputs.js";
import { Link, type Opening } from "./link.js";
import type { Path } from "./paths.js";
import type { Ready } from "./records.js";
import type { Result } from "./results.js";
import { Source } from "./source.js";
import type { FeatureStream, MapOptions } from "./stream.js";

const MAX_FRUITLESS_MOVES = 3;
const MAX_OPENINGS = 8;
const FIRST_WAIT_MS = 100;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What gRPC and proxies end a stream with whose server is gone. */
const TRANSPORT_CODES: readonly StatusCode[] = ["UNAVAILABLE", "ABORTED", "INTERNAL", "UNKNOWN", "CANCELLED"];

/** What is common to the server streams of one `map`. */
interface Run<P extends Path> {
  readonly options: MapOptions<P>;
  readonly signal: AbortSignal;
  /** The time that the `map` must be done by, on `performance.now()`'s clock. */
  readonly deadlineMs: number | undefined;
  nextId: number;
  fruitlessMoves: number;
  ready: Ready | undefined;
}

/** The one `FeatureStream`: opens a stream of the server for each `map`, or several one after another. */
export class MappedStream<P extends Path, D extends FeatureDataType> implements FeatureStream<P, D> {
  readonly path: P;
  readonly #opening: Opening<P, D>;
  #ready: Ready | undefined;

  constructor(opening: Opening<P, D>) {
    this.path = opening.adapter.path;
    this.#opening = opening;
  }

  get ready(): Ready | undefined {
    return this.#ready;
  }

  async *map(
    inputs: Iterable<Input<P>> | AsyncIterable<Input<P>>,
    options: MapOptions<P> = {},
  ): AsyncGenerator<Result<P, D>, void, undefined> {
    options.signal?.throwIfAborted();
    const stop = new AbortController();
    const onAbort = (): void => stop.abort(options.signal?.reason);
    options.signal?.addEventListener("abort", onAbort, { once: true });
    const { timeoutMs } = options;
    const deadlineMs = timeoutMs === undefined ? undefined : performance.now() + timeoutMs;
    const onDeadline = (): void => stop.abort(deadlineExceeded());
    const timer = timeoutMs === undefined ? undefined : setTimeout(onDeadline, Math.min(timeoutMs, MAX_TIMER_MS));
    const source = new Source(this.#opening.adapter, inputs);
    const run: Run<P> = { options, signal: stop.signal, deadlineMs, nextId: 1, fruitlessMoves: 0, ready: undefined };
    try {
      do {
        const link = await this.#open(run);
        const feeding = feed(link, source, run).catch((error: unknown) => stop.abort(error));
        yield* link.results();
        await feeding;
        stop.signal.throwIfAborted();
        run.fruitlessMoves = link.session.acceptedCount === 0 ? run.fruitlessMoves + 1 : 0;
        // Not before there is something to send is another stream opened.
      } while ((await unlessAborted(source.peek(), stop.signal)) !== undefined);
    } catch (error) {
      // The call ends with a status of its own where it is aborted; why it was is what the caller wants to know.
      throw stop.signal.aborted ? stop.signal.reason : error;
    } finally {
      clearTimeout(timer);
      options.signal?.removeEventListener("abort", onAbort);
      stop.abort();
      source.close();
    }
  }

  /** Opens a stream that takes items; the second and further ones patiently. */
  async #open(run: Run<P>): Promise<Link<P, D>> {
    for (let openings = 1; ; openings++) {
      if (run.fruitlessMoves >= MAX_FRUITLESS_MOVES) {
        throw new StreamMoved(`Expected a stream that takes items, got ${run.fruitlessMoves} that asked to move`);
      }
      try {
        const link = new Link(this.#opening, {
          signal: run.signal,
          timeoutMs: remainingMs(run.deadlineMs),
          onPlan: run.options.onPlan,
        });
        if (await link.opened()) {
          this.#opened(link, run);
          return link;
        }
        run.fruitlessMoves++;
      } catch (error) {
        if (run.ready === undefined || openings >= MAX_OPENINGS || run.signal.aborted || !mayReopen(error)) {
          throw error;
        }
        const waitMs = FIRST_WAIT_MS * 2 ** (openings - 1) * (0.5 + Math.random() / 2);
        await sleep(Math.max(waitMs, error.retryAfterMs ?? 0), run.signal);
      }
    }
  }

  #opened(link: Link<P, D>, run: Run<P>): void {
    const ready = link.session.ready!;
    const hex = (one: Ready): string => Buffer.from(one.configSha256).toString("hex");
    if (run.ready !== undefined && hex(run.ready) !== hex(ready)) {
      throw new StreamMoved(`Expected the config ${hex(run.ready)} on the new stream too, got ${hex(ready)}`);
    }
    run.ready = this.#ready = ready;
    run.options.onReady?.(ready);
  }
}

/** Sends inputs until there are no more or the stream takes no more. */
async function feed<P extends Path, D extends FeatureDataType>(
  link: Link<P, D>,
  source: Source<P>,
  run: Run<P>,
): Promise<void> {
  while (link.takesItems) {
    if (!link.session.hasRoom(0)) {
      await link.change();
    } else if (!source.settled) {
      await Promise.race([source.peek(), link.change()]);
    } else {
      const outgoing = await source.peek();
      if (outgoing === undefined) {
        link.halfClose();
      } else if (!link.session.hasRoom(outgoing.payloadBytes)) {
        await link.change();
      } else {
        source.take();
        link.send(run.nextId++, outgoing);
      }
    }
  }
}

function mayReopen(error: unknown): error is StreamError {
  return (
    error instanceof StreamError && (error.retryable || (error.reason === "" && TRANSPORT_CODES.includes(error.code)))
  );
}

function remainingMs(deadlineMs: number | undefined): number | undefined {
  if (deadlineMs === undefined) {
    return undefined;
  }
  const left = deadlineMs - performance.now();
  if (left <= 0) {
    throw deadlineExceeded();
  }
  return Math.ceil(left);
}

function deadlineExceeded(): StreamError {
  const message = "The time that the caller allows has passed";
  const code = "DEADLINE_EXCEEDED";
  return new StreamError({ code, message, reason: "", violations: [], retryAfterMs: undefined, retryable: false });
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const slept = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.min(ms, MAX_TIMER_MS));
  });
  return unlessAborted(slept, signal).finally(() => clearTimeout(timer));
}
