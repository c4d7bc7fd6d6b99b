/** What is still to be written: an async iterable that ends when it is told to. */
export class Outbox<T> implements AsyncIterable<T>, AsyncIterator<T, undefined> {
  readonly #queue: T[] = [];
  #ended = false;
  #waiting: ((result: IteratorResult<T, undefined>) => void) | undefined;

  /** Adds a message to write. Does nothing after the end. */
  push(message: T): void {
    if (this.#ended) {
      return;
    }
    if (this.#waiting === undefined) {
      this.#queue.push(message);
    } else {
      this.#settle({ done: false, value: message });
    }
  }

  /** Half-closes, behind what is there to write. */
  end(): void {
    this.#ended = true;
    this.#settle({ done: true, value: undefined });
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const value = this.#queue.shift();
    if (value !== undefined) {
      return Promise.resolve({ done: false, value });
    }
    if (this.#ended) {
      return Promise.resolve({ done: true, value: undefined });
    }
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  /** The call is over: nothing more will be written. */
  return(): Promise<IteratorResult<T, undefined>> {
    this.#queue.length = 0;
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** The call has failed: the same, for its reader hears of it. Connect demands this method. */
  throw(): Promise<IteratorResult<T, undefined>> {
    return this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #settle(result: IteratorResult<T, undefined>): void {
    this.#waiting?.(result);
    this.#waiting = undefined;
  }
}
