// Runs one contract vector, close to the wire: over generated messages and Connect's transport, so that it can also
// send what the typed client would not.

import {
  create,
  fromJson,
  toBinary,
  toJson,
  type DescMessage,
  type DescMethod,
  type DescMethodStreaming,
  type DescMethodUnary,
  type JsonObject,
  type JsonValue,
  type MessageShape,
} from "@bufbuild/protobuf";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { ConnectError, type Transport } from "@connectrpc/connect";

import { BadRequestSchema, ErrorInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { PreprocessingService } from "../src/gen/monopath/v1/service_pb.js";
import { Outbox } from "../src/outbox.js";
import { codeName } from "../src/status.js";

/** What this program reads of a vector. */
export interface Vector {
  readonly name: string;
  readonly method: string;
  /** Protobuf JSON, or `{"wire": base64}` for bytes that JSON cannot say. */
  readonly requests: readonly JsonObject[];
  readonly half_close: boolean;
}

export interface Status {
  readonly code: string;
  readonly message: string;
  readonly reason: string;
  readonly domain: string;
  readonly violations: readonly { readonly field: string; readonly description: string }[];
}

export type Outcome =
  | { readonly name: string; readonly responses: readonly JsonValue[]; readonly status: Status }
  | { readonly name: string; readonly skipped: string };

const TIMEOUT_MS = 60_000;
const OK: Status = { code: "OK", message: "", reason: "", domain: "", violations: [] };

/** Sends the vector's requests, and tells what came back. */
export async function runVector(vector: Vector, transport: Transport): Promise<Outcome> {
  const { name } = vector;
  const method = PreprocessingService.methods.find((candidate) => candidate.name === vector.method);
  if (method === undefined) {
    return { name, skipped: `Expected a method of the contract, got ${vector.method}` };
  }
  const requests: MessageShape<DescMessage>[] = [];
  for (const request of vector.requests) {
    const message = requestMessage(method, request);
    if (message === undefined) {
      return { name, skipped: "protobuf-es cannot write these bytes as they are: their first tag is none" };
    }
    requests.push(message);
  }
  const responses: JsonValue[] = [];
  const receive = (message: MessageShape<DescMessage>): void => {
    responses.push(toJson(method.output, message, { alwaysEmitImplicit: true }));
  };
  try {
    if (isStreaming(method)) {
      await exchange(vector, method, requests, transport, receive);
    } else if (isUnary(method) && requests[0] !== undefined) {
      const reply = await transport.unary(method, undefined, TIMEOUT_MS, undefined, requests[0]);
      receive(reply.message);
    }
  } catch (error) {
    return { name, responses, status: statusOf(error) };
  }
  return { name, responses, status: OK };
}

/** As a good client: the first request, then the first response, then the rest, reading while it writes. */
async function exchange(
  vector: Vector,
  method: DescMethodStreaming,
  requests: readonly MessageShape<DescMessage>[],
  transport: Transport,
  receive: (message: MessageShape<DescMessage>) => void,
): Promise<void> {
  const outbox = new Outbox<MessageShape<DescMessage>>();
  const [first, ...rest] = requests;
  const writeRest = (): void => {
    rest.splice(0).forEach((request) => outbox.push(request));
    if (vector.half_close) {
      outbox.end();
    }
  };
  if (first === undefined) {
    writeRest();
  } else {
    outbox.push(first);
  }
  const reply = await transport.stream(method, undefined, TIMEOUT_MS, undefined, outbox);
  for await (const message of reply.message) {
    receive(message);
    writeRest();
  }
}

/** A message that is written as the request says, byte by byte where it says bytes; undefined where none is. */
function requestMessage(method: DescMethod, request: JsonObject): MessageShape<DescMessage> | undefined {
  const { wire } = request;
  return typeof wire === "string"
    ? messageOfBytes(method.input, new Uint8Array(Buffer.from(wire, "base64")))
    : fromJson(method.input, request);
}

/**
 * A message that protobuf-es writes as exactly these bytes. It copies unknown fields out as they came in, and does not
 * look into them: what follows the first tag may be anything.
 */
function messageOfBytes(schema: DescMessage, bytes: Uint8Array): MessageShape<DescMessage> | undefined {
  const message = create(schema);
  if (bytes.length > 0) {
    try {
      const reader = new BinaryReader(bytes);
      const [no, wireType] = reader.tag();
      message.$unknown = [{ no, wireType, data: bytes.subarray(reader.pos) }];
    } catch {
      return undefined;
    }
  }
  return Buffer.compare(toBinary(schema, message), bytes) === 0 ? message : undefined;
}

function statusOf(error: unknown): Status {
  const status = ConnectError.from(error);
  const info = status.findDetails(ErrorInfoSchema)[0];
  const fields = status.findDetails(BadRequestSchema).flatMap((detail) => detail.fieldViolations);
  return {
    code: codeName(status.code),
    message: status.rawMessage,
    reason: info?.reason ?? "",
    domain: info?.domain ?? "",
    violations: fields.map(({ field, description }) => ({ field, description })),
  };
}

function isStreaming(method: DescMethod): method is DescMethodStreaming {
  return method.methodKind === "bidi_streaming";
}

function isUnary(method: DescMethod): method is DescMethodUnary {
  return method.methodKind === "unary";
}
