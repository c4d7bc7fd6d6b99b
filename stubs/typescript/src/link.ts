import type { Rpc, PathAdapter } from "./adapters.js";
import { ProtocolError } from "./errors.js";
import type { FeatureDataType } from "./features.js";
import type { OutputConfig, ProcessorConfig } from "./gen/monopath/v1/config_pb.js";
import { Payloads } from "./groups.js";
import type { Outgoing } from "./inputs.js";
import { Outbox } from "./outbox.js";
import type { Path, RequestByPath, SinglePayload } from "./paths.js";
import type { PlanEvent, Result } from "./results.js";
import { Session } from "./session.js";
import { streamErrorOf, streamErrorOfFailure } from "./status.js";

/** What every server stream of a caller's stream is opened with. */
export interface Opening<P extends Path, D extends FeatureDataType> {
  readonly rpc: Rpc;
  readonly adapter: PathAdapter<P>;
  readonly processor: ProcessorConfig;
  readonly output: OutputConfig;
  readonly dataType: D;
}

/** What one call is made with. */
export interface LinkOptions<P extends Path> {
  readonly signal: AbortSignal;
  readonly timeoutMs: number | undefined;
  readonly onPlan: ((event: PlanEvent<P>) => void) | undefined;
}

/** One stream of the server: its session, joined to the wire. Writing and reading do not wait for each other. */
export class Link<P extends Path, D extends FeatureDataType> {
  readonly session: Session<P, D>;
  readonly #outbox = new Outbox<RequestByPath[P]>();
  readonly #payloads: Payloads;
  /** Results of items that were never sent. */
  readonly #due: Result<P, D>[] = [];
  #over = false;
  #changed: () => void = () => undefined;
  #change: Promise<void>;

  /** Opens the stream: the config is on its way out. */
  constructor(opening: Opening<P, D>, { signal, timeoutMs, onPlan }: LinkOptions<P>) {
    const { rpc, adapter, processor, output, dataType } = opening;
    this.session = new Session(adapter.path, dataType, output.order, onPlan);
    this.#change = this.#nextChange();
    this.#outbox.push(adapter.configRequest(processor, output));
    const options = { signal, ...(timeoutMs !== undefined && { timeoutMs }) };
    this.#payloads = new Payloads(adapter.call(rpc, this.#outbox, options));
  }

  /** The server takes more items. */
  get takesItems(): boolean {
    return this.session.takesItems && !this.#over;
  }

  /** Sends an item, or makes its refusal due. */
  send(id: number, outgoing: Outgoing<P>): void {
    const { send, results } = this.session.begin(id, outgoing);
    this.#due.push(...results);
    if (send) {
      for (const request of outgoing.requests(id)) {
        this.#outbox.push(request);
      }
    } else {
      this.#changed();
    }
  }

  /** Says that no more will be sent. */
  halfClose(): void {
    this.session.halfClosed = true;
    this.#outbox.end();
    this.#changed();
  }

  /** Waits until there may be room for more, or a result is due, or no more may be sent. */
  change(): Promise<void> {
    return this.#change;
  }

  /**
   * Reads until the stream opened. Returns false where the server asks to move instead. Throws StreamError where it
   * refuses the stream, and ProtocolError.
   */
  async opened(): Promise<boolean> {
    while (this.session.ready === undefined) {
      if ((await this.#read()) === undefined) {
        return false;
      }
    }
    return true;
  }

  /** Reads to the end, and yields the results. Throws StreamError for another end than OK, and ProtocolError. */
  async *results(): AsyncGenerator<Result<P, D>, void, undefined> {
    let reading: Promise<Result<P, D>[] | undefined> | undefined;
    for (;;) {
      yield* this.#due.splice(0);
      if (reading === undefined) {
        reading = this.#read();
        reading.catch(() => undefined); // It is awaited below, unless the caller leaves.
      }
      const change = this.#change.then(() => "change" as const);
      const outcome = await Promise.race([reading, change]);
      if (outcome === undefined) {
        return;
      }
      if (outcome !== "change") {
        reading = undefined;
        yield* outcome;
      }
    }
  }

  /** Reads one message and returns its results, or undefined at the good end. */
  async #read(): Promise<Result<P, D>[] | undefined> {
    try {
      const payload = await this.#next();
      if (payload === undefined) {
        this.#checkEnd();
        this.#end();
        return undefined;
      }
      const results = this.session.receive(payload);
      if ((this.session.goaway || this.session.failure !== undefined) && !this.session.halfClosed) {
        this.halfClose();
      } else if (results.length > 0) {
        this.#changed();
      }
      return results;
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  #checkEnd(): void {
    if (this.session.failure !== undefined) {
      throw streamErrorOfFailure(this.session.failure);
    }
    this.session.checkEnd();
  }

  #end(): void {
    this.#over = true;
    this.#changed();
  }

  async #next(): Promise<SinglePayload | undefined> {
    try {
      return await this.#payloads.next();
    } catch (error) {
      throw error instanceof ProtocolError ? error : streamErrorOf(error, this.session.failure);
    }
  }

  #nextChange(): Promise<void> {
    return new Promise((resolve) => {
      this.#changed = () => {
        this.#change = this.#nextChange();
        resolve();
      };
    });
  }
}
