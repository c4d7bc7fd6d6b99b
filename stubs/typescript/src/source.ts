import type { PathAdapter } from "./adapters.js";
import type { Input, Outgoing } from "./inputs.js";
import type { Path } from "./paths.js";

/** The inputs of one `map`: pulled one at a time, when asked; what was pulled is kept until it is taken. */
export class Source<P extends Path> {
  readonly #iterator: Iterator<Input<P>> | AsyncIterator<Input<P>>;
  readonly #adapter: PathAdapter<P>;
  #pull: Promise<Outgoing<P> | undefined> | undefined;
  #settled = false;

  constructor(adapter: PathAdapter<P>, inputs: Iterable<Input<P>> | AsyncIterable<Input<P>>) {
    this.#adapter = adapter;
    this.#iterator = Symbol.asyncIterator in inputs ? inputs[Symbol.asyncIterator]() : inputs[Symbol.iterator]();
  }

  /** The next input is there, or known to be missing: `peek` does not wait. */
  get settled(): boolean {
    return this.#settled;
  }

  /** The next input, undefined where there is none. Rejects with what the caller's iterable threw. */
  peek(): Promise<Outgoing<P> | undefined> {
    if (this.#pull === undefined) {
      this.#pull = this.#next().finally(() => {
        this.#settled = true;
      });
      this.#pull.catch(() => undefined); // Who waits for it hears of it, now or later.
    }
    return this.#pull;
  }

  /** Takes the input that was peeked at. */
  take(): void {
    this.#pull = undefined;
    this.#settled = false;
  }

  /** Tells the caller's iterable that no more will be pulled. Does not wait: it may be busy for ever. */
  close(): void {
    try {
      Promise.resolve(this.#iterator.return?.()).catch(() => undefined);
    } catch {
      // What a caller's iterable throws on its way out would hide why it was closed.
    }
  }

  async #next(): Promise<Outgoing<P> | undefined> {
    const { done, value } = await this.#iterator.next();
    return done === true ? undefined : this.#adapter.outgoing(value);
  }
}
