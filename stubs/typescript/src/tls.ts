import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext, type ConnectionOptions } from "node:tls";

/** PEM: its text, its bytes, or the file that it is in. */
export type Pem = string | Uint8Array | { readonly file: string };

/** Encryption, and who the two sides are. Files are read once, when the client is made. */
export interface TlsOptions {
  /** Authorities that the server's certificate has to come from. Absent: the public ones that Node brings. */
  readonly rootCertificates?: Pem;
  /** The client's own certificate, those between it and its authority behind it, for a server that wants one. */
  readonly certificate?: Pem;
  /** The key of `certificate`, not encrypted. */
  readonly privateKey?: Pem;
  /** The name in the server's certificate, where that is not the one in the target, such as behind a tunnel. */
  readonly serverName?: string;
}

/** Returns what Node takes. Throws TypeError for what cannot be what it is to be, and what reading a file throws. */
export function tlsConnectionOptions(options: TlsOptions): ConnectionOptions {
  const { rootCertificates, certificate, privateKey, serverName } = options;
  if ((certificate === undefined) !== (privateKey === undefined)) {
    throw new TypeError("Expected a certificate of the client and its key, got one of them");
  }
  const identity = certificate && privateKey && { cert: content(certificate), key: content(privateKey) };
  const authorities = rootCertificates && { ca: authoritiesIn(rootCertificates) };
  return {
    secureContext: secureContext({ ...identity, ...authorities }),
    ...(serverName !== undefined && { servername: serverName }),
  };
}

function secureContext(options: Parameters<typeof createSecureContext>[0]): ReturnType<typeof createSecureContext> {
  try {
    return createSecureContext(options);
  } catch (cause) {
    throw new TypeError("Expected a certificate of the client and its own key as PEM, got something else", { cause });
  }
}

/** Node itself takes anything for authorities, and then trusts nobody. */
function authoritiesIn(pem: Pem): string[] {
  const found = content(pem).match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g) ?? [];
  try {
    found.forEach((certificate) => new X509Certificate(certificate));
  } catch {
    found.length = 0;
  }
  if (found.length === 0) {
    throw new TypeError(`Expected certificates of authorities as PEM${placeOf(pem)}, got something else`);
  }
  return found;
}

function content(pem: Pem): string {
  if (typeof pem === "string") {
    return pem;
  }
  return Buffer.from(pem instanceof Uint8Array ? pem : readFileSync(pem.file)).toString("latin1");
}

function placeOf(pem: Pem): string {
  return typeof pem === "object" && "file" in pem ? ` in ${pem.file}` : "";
}
