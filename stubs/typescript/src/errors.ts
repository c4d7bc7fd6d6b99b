import type { ItemErrorReason, StreamErrorReason } from "./gen/monopath/v1/error_pb.js";
import type { GrpcCode } from "./gen/monopath/v1/options_pb.js";

/** The name of a gRPC status code other than OK: "INVALID_ARGUMENT". */
export type StatusCode = Exclude<keyof typeof GrpcCode, "UNSPECIFIED">;

/** A name of the union, or one that a newer server knows. */
type NameOrNewer<Name extends string> = Name | (string & Record<never, never>);

/** Why a stream or a unary call failed: a `StreamErrorReason` of the contract by name; "" where none was given. */
export type StreamReason = NameOrNewer<Exclude<keyof typeof StreamErrorReason, "UNSPECIFIED"> | "">;

/** Why an item failed: an `ItemErrorReason` of the contract by name, or the number of one that is not known here. */
export type ItemReason = NameOrNewer<Exclude<keyof typeof ItemErrorReason, "UNSPECIFIED">>;

/** One wrong, missing or ignored field. */
export interface FieldViolation {
  /** Path of the field, as its author wrote it: "media_proc_cfg.patch_size". */
  readonly field: string;
  /** What was expected and what was found. */
  readonly description: string;
}

/** Whatever goes wrong between this client and a server. */
export class MonopathError extends Error {
  override name = "MonopathError";
}

/** The server broke the contract's grammar; nothing of the stream after that can be trusted. */
export class ProtocolError extends MonopathError {
  override name = "ProtocolError";
}

/** The server asked to move to a new stream, and no new stream could carry on. */
export class StreamMoved extends MonopathError {
  override name = "StreamMoved";
}

/** What is known of a status. */
export interface StatusInfo {
  readonly code: StatusCode;
  readonly message: string;
  readonly reason: StreamReason;
  readonly violations: readonly FieldViolation[];
  /** When the same may be tried again, where the server said so. */
  readonly retryAfterMs: number | undefined;
  /** The same may succeed later, here or at another replica, without being changed. */
  readonly retryable: boolean;
}

/** A stream or a unary call ended with a status other than OK. Items without a result may be sent again. */
export class StreamError extends MonopathError {
  override name = "StreamError";
  readonly code: StatusCode;
  readonly reason: StreamReason;
  /** Every wrong field, where fields are wrong. */
  readonly violations: readonly FieldViolation[];
  /** When the same may be tried again, where the server said so. */
  readonly retryAfterMs: number | undefined;
  /** The same may succeed later, here or at another replica, without being changed. */
  readonly retryable: boolean;

  constructor(info: StatusInfo, options?: ErrorOptions) {
    const fields = info.violations.map((violation) => `\n  ${violation.field}: ${violation.description}`);
    super(`${info.reason || info.code}: ${info.message}${fields.join("")}`, options);
    this.code = info.code;
    this.reason = info.reason;
    this.violations = info.violations;
    this.retryAfterMs = info.retryAfterMs;
    this.retryable = info.retryable;
  }
}

/** One item has no features; its stream and its neighbours go on. A value: found in `result.error`, never thrown. */
export class ItemError extends MonopathError {
  override name = "ItemError";
  readonly reason: ItemReason;
  /** The class of the error; an item has no status of its own. */
  readonly code: StatusCode;
  /** The field of the item that is wrong, where one is: "image.pixels.format". */
  readonly field: string;
  readonly retryAfterMs: number | undefined;
  /** The same item may succeed later without being changed. */
  readonly retryable: boolean;

  constructor(info: Omit<StatusInfo, "reason" | "violations"> & { reason: ItemReason; field: string }) {
    super(info.message);
    this.reason = info.reason;
    this.code = info.code;
    this.field = info.field;
    this.retryAfterMs = info.retryAfterMs;
    this.retryable = info.retryable;
  }
}
