import { create } from "@bufbuild/protobuf";

import { FeatureAssembly } from "./assembly.js";
import { ItemError, ProtocolError } from "./errors.js";
import type { FeatureDataType } from "./features.js";
import { ResultOrder } from "./gen/monopath/v1/config_pb.js";
import {
  ItemErrorReason,
  ItemErrorSchema,
  type ItemError as ItemErrorMessage,
  type StreamFailure,
} from "./gen/monopath/v1/error_pb.js";
import type { ItemPlan, Ready as ReadyMessage, Summary } from "./gen/monopath/v1/event_pb.js";
import type { Outgoing } from "./inputs.js";
import { pathName, type Path, type SinglePayload } from "./paths.js";
import { imagePlan, itemTimings, provenance, readyOf, type ImagePlan, type Ready } from "./records.js";
import type { PlanEvent, Result } from "./results.js";
import { itemErrorOf } from "./status.js";

type Payload<Case> = Extract<SinglePayload, { case: Case }>["value"];

/** An item that was sent and has no end yet. */
interface Unfinished<D extends FeatureDataType> {
  readonly label: string;
  readonly payloadBytes: number;
  plan?: ImagePlan;
  assembly?: FeatureAssembly<D>;
  /** Why the item was not sent at all. It waits for its turn, where items end in the order they were sent. */
  readonly refusal?: ItemError;
}

/**
 * The state of one stream, from `config` to `summary`, without I/O: what may be sent, and whether what was received
 * keeps to the contract's grammar. Methods throw ProtocolError where the server breaks a rule.
 */
export class Session<P extends Path, D extends FeatureDataType> {
  ready: Ready | undefined;
  failure: StreamFailure | undefined;
  goaway = false;
  summary: Summary | undefined;
  halfClosed = false;
  /** Items that were sent. */
  acceptedCount = 0;
  readonly #path: P;
  readonly #dataType: D;
  readonly #order: ResultOrder;
  readonly #onPlan: ((event: PlanEvent<P>) => void) | undefined;
  /** Insertion order is sending order. */
  readonly #unfinished = new Map<number, Unfinished<D>>();
  #unfinishedBytes = 0;
  readonly #counts = { completedCount: 0, failedCount: 0, cancelledCount: 0 };

  constructor(path: P, dataType: D, order: ResultOrder, onPlan?: (event: PlanEvent<P>) => void) {
    this.#path = path;
    this.#dataType = dataType;
    this.#order = order;
    this.#onPlan = onPlan;
  }

  /** The server takes more items on this stream. */
  get takesItems(): boolean {
    return this.ready !== undefined && !this.goaway && this.failure === undefined && !this.halfClosed;
  }

  /** The limits have room for an item of as many bytes. There always is room for one item alone. */
  hasRoom(payloadBytes: number): boolean {
    if (this.#unfinished.size === 0) {
      return true;
    }
    const limits = this.ready?.limits;
    return (
      limits !== undefined &&
      this.#unfinished.size < limits.maxUnfinishedItems &&
      this.#unfinishedBytes + payloadBytes <= limits.maxUnfinishedBytes
    );
  }

  /**
   * Takes an item under the next id. Returns whether it is to be sent, and results that are due at once: an item whose
   * request the server could not take would end the whole stream, and becomes its own error instead.
   */
  begin(id: number, outgoing: Outgoing<P>): { send: boolean; results: Result<P, D>[] } {
    const { label, payloadBytes, requestBytes } = outgoing;
    const maxRequestBytes = this.ready?.limits.maxRequestBytes ?? 0;
    if (maxRequestBytes > 0 && requestBytes > maxRequestBytes) {
      const message = `Expected a request of at most ${maxRequestBytes} bytes, got ${requestBytes}; not sent`;
      const refusal = itemErrorOf(
        create(ItemErrorSchema, { id, label, message, reason: ItemErrorReason.IMAGE_BYTES_EXCEEDED }),
      );
      this.#unfinished.set(id, { label, payloadBytes: 0, refusal });
      return { send: false, results: this.#dueRefusals() };
    }
    this.#unfinished.set(id, { label, payloadBytes });
    this.#unfinishedBytes += payloadBytes;
    this.acceptedCount++;
    return { send: true, results: [] };
  }

  /** Takes one message of the server, and returns the results that it brings. */
  receive(payload: SinglePayload): Result<P, D>[] {
    if (payload.case === undefined) {
      return []; // A newer server's; never terminal.
    }
    if (this.summary !== undefined) {
      throw new ProtocolError(`Expected nothing after the summary, got ${payload.case}`);
    }
    switch (payload.case) {
      case "goaway":
        this.goaway = true;
        return [];
      case "failure":
        this.failure = payload.value;
        return [];
      case "ready":
        this.#receiveReady(payload.value);
        return [];
      case "summary":
        this.#receiveSummary(payload.value);
        return [];
      case "plan":
        this.#receivePlan(payload.value);
        return [];
      case "features":
        this.#receiveFeatures(payload.value);
        return [];
      case "completion":
        return this.#receiveCompletion(payload.value);
      case "error":
        return this.#receiveError(payload.value);
    }
  }

  /** Takes the end of the stream with the status OK. */
  checkEnd(): void {
    // A server that asks to move before it is ready has nothing to sum up.
    if (this.summary === undefined && (this.ready !== undefined || !this.goaway)) {
      throw new ProtocolError("Expected a summary before the stream's end, got none");
    }
  }

  #receiveReady(message: ReadyMessage): void {
    if (this.ready !== undefined || this.failure !== undefined) {
      throw new ProtocolError("Expected ready once, before any failure, got another");
    }
    this.#checkPath(message.path, "ready");
    this.ready = readyOf(message);
  }

  #receiveSummary(message: Summary): void {
    if (!this.halfClosed) {
      throw new ProtocolError("Expected the summary after the half-close, got it before");
    }
    if (this.#unfinished.size > 0) {
      throw new ProtocolError(`Expected ${this.#unfinished.size} more items to end before the summary, got none`);
    }
    const counts = { acceptedCount: this.acceptedCount, ...this.#counts };
    for (const name of ["acceptedCount", "completedCount", "failedCount", "cancelledCount"] as const) {
      if (message[name] !== counts[name]) {
        throw new ProtocolError(`Expected a summary with ${name} ${counts[name]}, got ${message[name]}`);
      }
    }
    this.summary = message;
  }

  #receivePlan(message: ItemPlan): void {
    const { ready, item } = this.#item(message.id, "plan");
    if (item.plan !== undefined) {
      throw new ProtocolError(`Expected one plan of item ${message.id}, got another`);
    }
    this.#checkPath(message.path, "a plan");
    item.plan = imagePlan(message.plan);
    item.assembly = new FeatureAssembly(item.plan, this.#dataType, ready.limits.maxFeatureBytes);
    this.#onPlan?.({ id: message.id, label: item.label, path: this.#path, plan: item.plan });
  }

  #receiveFeatures(message: Payload<"features">): void {
    const { item } = this.#item(message.id, "features");
    if (message.location.case !== "chunk") {
      throw new ProtocolError(`Expected features of item ${message.id} inline, got ${message.location.case ?? "none"}`);
    }
    this.#assembly(message.id, item).add(message.location.value.offsetBytes, message.location.value.data);
  }

  #receiveCompletion(message: Payload<"completion">): Result<P, D>[] {
    const { id, label } = message;
    const { ready, item } = this.#item(id, "completion");
    const features = this.#assembly(id, item).finish();
    const plan = item.plan!;
    const made = message.provenance;
    if (made === undefined || label !== item.label) {
      throw new ProtocolError(`Expected a completion of item ${id} with its label and a provenance, got another`);
    }
    this.#checkPath(made.path, "a provenance");
    if (Buffer.compare(made.configSha256, ready.configSha256) !== 0) {
      throw new ProtocolError(`Expected item ${id} made with the stream's config, got another`);
    }
    this.#counts.completedCount++;
    return this.#end(id, {
      ok: true,
      id,
      label,
      path: this.#path,
      dataType: this.#dataType,
      features,
      shape: plan.shape,
      plan,
      gridThw: plan.gridThw,
      tokenCount: plan.tokenCount,
      provenance: provenance(made),
      timings: itemTimings(message.timings),
      cache: "cache" in message ? message.cache : undefined,
    });
  }

  #receiveError(message: ItemErrorMessage): Result<P, D>[] {
    const { id } = message;
    const { item } = this.#item(id, "error");
    if (message.reason === ItemErrorReason.CANCELLED) {
      this.#counts.cancelledCount++;
    } else {
      this.#counts.failedCount++;
    }
    const { label, plan } = item;
    return this.#end(id, { ok: false, id, label, path: this.#path, plan, error: itemErrorOf(message) });
  }

  #end(id: number, result: Result<P, D>): Result<P, D>[] {
    const [first] = this.#unfinished.keys();
    if (this.#order === ResultOrder.AS_SENT && id !== first) {
      throw new ProtocolError(`Expected item ${first} to end first, as sent, got the end of item ${id}`);
    }
    this.#unfinishedBytes -= this.#unfinished.get(id)?.payloadBytes ?? 0;
    this.#unfinished.delete(id);
    return [result, ...this.#dueRefusals()];
  }

  #dueRefusals(): Result<P, D>[] {
    const due: Result<P, D>[] = [];
    for (const [id, { label, refusal }] of this.#unfinished) {
      if (refusal !== undefined) {
        due.push({ ok: false, id, label, path: this.#path, plan: undefined, error: refusal });
        this.#unfinished.delete(id);
      } else if (this.#order === ResultOrder.AS_SENT) {
        break;
      }
    }
    return due;
  }

  #item(id: number, name: string): { ready: Ready; item: Unfinished<D> } {
    const item = this.#unfinished.get(id);
    if (this.ready === undefined) {
      throw new ProtocolError(`Expected ready first, got ${name}`);
    }
    if (item === undefined || item.refusal !== undefined) {
      throw new ProtocolError(`Expected ${name} of an item without an end, got item ${id}`);
    }
    return { ready: this.ready, item };
  }

  #assembly(id: number, item: Unfinished<D>): FeatureAssembly<D> {
    if (item.assembly === undefined) {
      throw new ProtocolError(`Expected a plan of item ${id} before its features, got none`);
    }
    return item.assembly;
  }

  #checkPath(found: number, where: string): void {
    if (pathName(found) !== this.#path) {
      throw new ProtocolError(`Expected ${where} of the path ${this.#path}, got ${pathName(found)}`);
    }
  }
}
