import type { ClientHttp2Session, ClientHttp2Stream, SecureClientSessionOptions } from "node:http2";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";

import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { unlessAborted } from "./abort.js";
import { parseTarget, type Target } from "./target.js";
import { tlsConnectionOptions, type TlsOptions } from "./tls.js";
import { tokenReader, type TokenSource } from "./token.js";

/** Chunks are at most 1 MiB; the rest is for large plans. */
const MAX_RESPONSE_BYTES = 4 << 20;
/** Node's own 64 KiB would cost most of the throughput of large features. */
const WINDOW_BYTES = 8 << 20;
/** A server that froze or vanished is noticed while a stream waits. Ours allows a ping every 10 s. */
const PING_INTERVAL_MS = 20_000;
const PING_TIMEOUT_MS = 5_000;

/** The transport to a target, and the connection that it uses. Nothing is connected before the first call. */
export interface Connection {
  readonly transport: Transport;
  /** Ends the connection and what is open on it. */
  close(): void;
}

/** Where a client leads to, and how it is let in. */
export interface ClientOptions {
  /** "host:port", "unix:/path", or the URL of a proxy: "https://host". */
  readonly target: string;
  /** Sent with every call, such as for a proxy that wants to know who calls. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Encrypts the connection. Absent: an "https://" target is encrypted all the same, others are plaintext. */
  readonly tls?: TlsOptions;
  /** Sent with every call as `authorization: Bearer TOKEN`; in plaintext to this host only. */
  readonly token?: TokenSource;
}

/**
 * Throws TypeError for what cannot be, a token in plaintext beyond this host among it, and what reading the files of
 * `tls` and `token` throws.
 */
export function connectionTo({ target, headers = {}, tls, token }: ClientOptions): Connection {
  const parsed = parseTarget(target, tls !== undefined);
  if (token !== undefined && !parsed.isEncrypted && !parsed.isOnThisHost) {
    throw new TypeError(
      `Expected TLS for a token beyond this host, got plaintext to ${target}: give tls, or an "https://" target`,
    );
  }
  const sessions = new WideSessions(
    parsed.baseUrl,
    { pingIntervalMs: PING_INTERVAL_MS, pingTimeoutMs: PING_TIMEOUT_MS },
    {
      settings: { initialWindowSize: WINDOW_BYTES, enablePush: false },
      ...socketOptions(parsed, tls),
    },
  );
  const transport = createGrpcTransport({
    baseUrl: parsed.baseUrl,
    sessionManager: sessions,
    acceptCompression: [], // Images and features do not get smaller.
    readMaxBytes: MAX_RESPONSE_BYTES,
    interceptors: [addHeaders(headers), ...(token === undefined ? [] : [addToken(tokenReader(token))])],
  });
  return { transport, close: () => sessions.close() };
}

function socketOptions({ socketPath }: Target, tls: TlsOptions | undefined): SecureClientSessionOptions {
  const encryption = tls && tlsConnectionOptions(tls);
  if (socketPath === undefined) {
    return { ...encryption };
  }
  return {
    createConnection: () =>
      encryption === undefined
        ? connect(socketPath)
        : connectTls({ servername: "localhost", ALPNProtocols: ["h2"], ...encryption, path: socketPath }),
  };
}

function addHeaders(headers: Readonly<Record<string, string>>): Interceptor {
  return (next) => (request) => {
    for (const [name, value] of Object.entries(headers)) {
      request.header.set(name, value);
    }
    return next(request);
  };
}

/** Adds the token of the moment, unless the caller's own headers say who calls. */
function addToken(latest: () => string | Promise<string>): Interceptor {
  return (next) => async (request) => {
    if (!request.header.has("authorization")) {
      const token = await unlessAborted(Promise.resolve(latest()), request.signal);
      request.header.set("authorization", `Bearer ${token}`);
    }
    return next(request);
  };
}

/** Connections whose window is wide, and not only those of their streams. */
class WideSessions extends Http2SessionManager {
  #session: ClientHttp2Session | undefined;
  #closed = false;

  override async request(...call: Parameters<Http2SessionManager["request"]>): Promise<ClientHttp2Stream> {
    if (this.#closed) {
      throw new ConnectError("The client is closed", Code.Canceled);
    }
    const stream = await super.request(...call);
    const session = stream.session as ClientHttp2Session | undefined;
    if (session !== undefined && session !== this.#session) {
      this.#session = session;
      session.setLocalWindowSize(WINDOW_BYTES);
    }
    return stream;
  }

  /** Takes leave of the server where nothing is open, and breaks off what is. */
  close(): void {
    this.#closed = true;
    // A call that has just ended leaves the connection idle only in this turn of the loop.
    setImmediate(() => {
      if (this.state() === "idle") {
        this.#session?.close();
      } else {
        this.abort();
      }
    });
  }
}
