import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { connect } from "node:net";

import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

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

/** Throws TypeError for a target that is none. */
export function connectionTo(target: string, headers: Readonly<Record<string, string>>): Connection {
  const { baseUrl, socketPath } = parseTarget(target);
  const sessions = new WideSessions(
    baseUrl,
    { pingIntervalMs: PING_INTERVAL_MS, pingTimeoutMs: PING_TIMEOUT_MS },
    {
      settings: { initialWindowSize: WINDOW_BYTES, enablePush: false },
      ...(socketPath !== undefined && { createConnection: () => connect(socketPath) }),
    },
  );
  const addHeaders: Interceptor = (next) => (request) => {
    for (const [name, value] of Object.entries(headers)) {
      request.header.set(name, value);
    }
    return next(request);
  };
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager: sessions,
    acceptCompression: [], // Images and features do not get smaller.
    readMaxBytes: MAX_RESPONSE_BYTES,
    interceptors: [addHeaders],
  });
  return { transport, close: () => sessions.close() };
}

/** "host:port", "unix:/path", or the URL of a proxy: "https://host". */
export function parseTarget(target: string): { baseUrl: string; socketPath?: string } {
  const unix = /^unix:(?:\/\/)?(.+)$/.exec(target);
  if (unix?.[1] !== undefined) {
    return { baseUrl: "http://localhost", socketPath: unix[1] };
  }
  const text = /^https?:\/\//.test(target) ? target : `http://${target}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isBare =
    url !== undefined && url.pathname === "/" && url.search === "" && url.hash === "" && url.username === "";
  if (!isBare || (text !== target && !/:\d+$/.test(target))) {
    throw new TypeError(`Expected a target "host:port", "unix:/path" or "https://host", got ${JSON.stringify(target)}`);
  }
  return { baseUrl: url.origin };
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
