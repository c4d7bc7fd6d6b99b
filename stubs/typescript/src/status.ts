// From the contract's reasons and gRPC's statuses to this client's errors, in this one place.

import { getOption, hasOption, type DescEnum } from "@bufbuild/protobuf";
import type { Duration } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

import { ItemError, StreamError, type FieldViolation, type StatusCode } from "./errors.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import {
  ItemErrorReason,
  ItemErrorReasonSchema,
  StreamErrorReason,
  StreamErrorReasonSchema,
  type ItemError as ItemErrorMessage,
  type StreamFailure,
} from "./gen/monopath/v1/error_pb.js";
import { GrpcCode, traits, type ReasonTraits } from "./gen/monopath/v1/options_pb.js";

const DOMAIN = "monopath.v1";

/**
 * The error that a call ended with. `failure` is what the server told in the stream itself before: it speaks where the
 * status says nothing, such as when the connection was lost behind it.
 */
export function streamErrorOf(error: unknown, failure?: StreamFailure): StreamError {
  const status = ConnectError.from(error);
  const info = status.findDetails(ErrorInfoSchema).find((detail) => detail.domain === DOMAIN);
  if (info === undefined && failure !== undefined) {
    return streamErrorOfFailure(failure, { cause: error });
  }
  const wrongFields = status.findDetails(BadRequestSchema).flatMap((detail) => detail.fieldViolations);
  const delay = status.findDetails(RetryInfoSchema)[0]?.retryDelay;
  const retryAfterMs = delay && milliseconds(delay);
  const reason = info?.reason ?? "";
  const known = reasonTraits(StreamErrorReasonSchema, reason);
  return new StreamError(
    {
      code: codeName(status.code),
      message: status.rawMessage,
      reason,
      violations: wrongFields.map(violation),
      retryAfterMs,
      // Without a reason of ours it is the transport's: nobody was reached, or the connection was lost.
      retryable: known?.retryable ?? (status.code === Code.Unavailable || retryAfterMs !== undefined),
    },
    { cause: error },
  );
}

/** The error of a stream that told its failure, with the code that its reason has. */
export function streamErrorOfFailure(failure: StreamFailure, options?: ErrorOptions): StreamError {
  const reason = StreamErrorReason[failure.reason] ?? String(failure.reason);
  const known = reasonTraits(StreamErrorReasonSchema, reason);
  return new StreamError(
    {
      code: codeName(known?.code ?? Code.Unknown),
      message: failure.message,
      reason,
      violations: failure.violations.map(violation),
      retryAfterMs: undefined,
      retryable: known?.retryable ?? false,
    },
    options,
  );
}

/** The error of one item. */
export function itemErrorOf(message: ItemErrorMessage): ItemError {
  const reason = ItemErrorReason[message.reason] ?? String(message.reason);
  const known = reasonTraits(ItemErrorReasonSchema, reason);
  const retryAfterMs = message.retryAfter && milliseconds(message.retryAfter);
  return new ItemError({
    code: codeName(known?.code ?? Code.Unknown),
    message: message.message,
    reason,
    field: message.field,
    retryAfterMs,
    retryable: known?.retryable ?? retryAfterMs !== undefined,
  });
}

/** A wrong or ignored field as a plain value. */
export function violation(message: FieldViolation): FieldViolation {
  return { field: message.field, description: message.description };
}

/** The name of a status code; "UNKNOWN" for a number that is none. */
export function codeName(code: number): StatusCode {
  const name = GrpcCode[code] as keyof typeof GrpcCode | undefined;
  return name === undefined || name === "UNSPECIFIED" ? "UNKNOWN" : name;
}

function reasonTraits(reasons: DescEnum, name: string): ReasonTraits | undefined {
  const value = reasons.values.find((candidate) => candidate.localName === name);
  return value !== undefined && hasOption(value, traits) ? getOption(value, traits) : undefined;
}

/** A duration in milliseconds, with its fraction. */
export function milliseconds(duration: Duration): number {
  return Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}
