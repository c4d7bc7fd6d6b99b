import { ProtocolError } from "./errors.js";
import type { ResponsePayload, SinglePayload } from "./paths.js";

/** The payloads of a stream's responses; those of a group are read as if each had come alone. */
export class Payloads {
  readonly #responses: AsyncIterator<{ payload: ResponsePayload }>;
  /** What is left of a group. */
  #grouped: ResponsePayload[] = [];

  constructor(responses: AsyncIterable<{ payload: ResponsePayload }>) {
    this.#responses = responses[Symbol.asyncIterator]();
  }

  /** The next one; undefined at the good end. Throws ProtocolError for a group in a group, and what the call throws. */
  async next(): Promise<SinglePayload | undefined> {
    while (this.#grouped.length === 0) {
      const { done, value } = await this.#responses.next();
      if (done === true) {
        return undefined;
      }
      if (value.payload.case !== "group") {
        return value.payload;
      }
      this.#grouped = value.payload.value.responses.map(({ payload }) => payload);
    }
    const payload = this.#grouped.shift()!;
    if (payload.case === "group") {
      throw new ProtocolError("Expected a group of responses, got one with a group in it");
    }
    return payload;
  }
}
