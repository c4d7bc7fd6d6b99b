/** Where a client leads to. */
export interface Target {
  /** The URL's origin; of a unix socket one that stands for it. */
  readonly baseUrl: string;
  readonly socketPath: string | undefined;
  readonly isEncrypted: boolean;
  /** Nothing that is sent there crosses a network, judged by the text alone: a name server is never asked. */
  readonly isOnThisHost: boolean;
}

const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/;

/**
 * Reads "host:port", "unix:/path", or the URL of a proxy: "https://host". `hasTls`: the client was given TLS, which the
 * first two are encrypted with then. Throws TypeError for what is no target, and for "http://" with TLS.
 */
export function parseTarget(target: string, hasTls: boolean): Target {
  const scheme = hasTls ? "https" : "http";
  const unix = /^unix:(?:\/\/)?(.+)$/.exec(target);
  if (unix?.[1] !== undefined) {
    return { baseUrl: `${scheme}://localhost`, socketPath: unix[1], isEncrypted: hasTls, isOnThisHost: true };
  }
  const text = /^https?:\/\//.test(target) ? target : `${scheme}://${target}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isBare =
    url !== undefined && url.pathname === "/" && url.search === "" && url.hash === "" && url.username === "";
  if (!isBare || (text !== target && !/:\d+$/.test(target))) {
    throw new TypeError(`Expected a target "host:port", "unix:/path" or "https://host", got ${JSON.stringify(target)}`);
  }
  const isEncrypted = url.protocol === "https:";
  if (hasTls && !isEncrypted) {
    throw new TypeError(`Expected a target that takes TLS, such as "https://host", got ${JSON.stringify(target)}`);
  }
  return { baseUrl: url.origin, socketPath: undefined, isEncrypted, isOnThisHost: LOOPBACK.test(url.hostname) };
}
