// What a server says, as plain values, and their making from the contract's messages.

import { ProtocolError, type FieldViolation } from "./errors.js";
import type { ProcessorConfig, ResampleKernel } from "./gen/monopath/v1/config_pb.js";
import type {
  ItemTimings as ItemTimingsMessage,
  Provenance as ProvenanceMessage,
  Ready as ReadyMessage,
  Route,
  StreamLimits as StreamLimitsMessage,
} from "./gen/monopath/v1/event_pb.js";
import type { ImagePlan as ImagePlanMessage } from "./gen/monopath/v1/geometry_pb.js";
import { DataType, type Tensor } from "./gen/monopath/v1/tensor_pb.js";
import { featureArray } from "./features.js";
import { milliseconds, violation } from "./status.js";

/** Width and height of an image, in pixels. */
export interface Size {
  readonly widthPx: number;
  readonly heightPx: number;
}

/** A patch grid, in patches (not merged tokens): frames, patches per column, patches per line. */
export type GridThw = readonly [t: number, h: number, w: number];

/** Tiles of one size, line by line; where there is a thumbnail, it is one more row of features, and the last. */
export interface TileGrid {
  readonly columns: number;
  readonly rows: number;
  readonly hasThumbnail: boolean;
  readonly tileSizePx: number;
}

/** What is used of a resized image. Where offsets are negative, or it is larger than the image, there are zeros. */
export interface Crop extends Size {
  readonly leftPx: number;
  readonly topPx: number;
}

/** Everything that follows from an image's size and the processor config alone. */
export interface ImagePlan {
  /** Size the plan was made from, after the config's orientation policy was applied. */
  readonly originalSize: Size;
  /** Size after the resize, before the padding. */
  readonly resizedSize: Size;
  /** Zero pixels added after the resize, at the right and bottom only. */
  readonly padding: { readonly rightPx: number; readonly bottomPx: number };
  /** Patch grid of the padded image. Undefined for a family whose rows of features are no patches of a grid. */
  readonly gridThw: GridThw | undefined;
  /** For a family whose rows of features are tiles. */
  readonly tileGrid: TileGrid | undefined;
  /** For a family that gives all images one size, in one row of features. */
  readonly fixedSize: Size | undefined;
  /** What is used of the resized image. Undefined: all of it. */
  readonly crop: Crop | undefined;
  /** Tokens that the encoder's output will have for this image; 0 where the config does not say how many. */
  readonly tokenCount: number;
  /** Element type of the features. UNSPECIFIED where none was asked for. */
  readonly dataType: DataType;
  /**
   * Rows, channels, height and width of a row's pixels; frames behind the channels. Empty where no element type was
   * asked for.
   */
  readonly shape: readonly number[];
  /** Bytes of the features. */
  readonly sizeBytes: number;
}

/** From what and by what features were made; enough to know whether two results must be equal. */
export interface Provenance {
  /** SHA-256 of the config's canonical form. */
  readonly configSha256: Uint8Array;
  /** SHA-256 of the image's bytes as sent: the file, or the raw pixels. For LOCAL what the client declared, if so. */
  readonly contentSha256: Uint8Array;
  /** The resize arithmetic. UNSPECIFIED for LOCAL. */
  readonly resampleKernel: ResampleKernel;
  /** Where the pixels were resized and converted. */
  readonly route: Route;
  readonly pillowVersion: string;
  readonly serverVersion: string;
}

/** Time that an item spent in the server. */
export interface ItemTimings {
  readonly planningMs: number;
  readonly queuedMs: number;
  readonly decodingMs: number;
  readonly transformingMs: number;
}

/** What a server takes. Reaching the unfinished ones is no error: the server stops reading until items have ended. */
export interface StreamLimits {
  readonly maxUnfinishedItems: number;
  readonly maxUnfinishedBytes: number;
  readonly maxUnfinishedPixels: number;
  readonly maxImageBytes: number;
  readonly maxImageSidePx: number;
  readonly maxImagePixels: number;
  readonly maxFeatureBytes: number;
  readonly maxRequestBytes: number;
  readonly chunkBytes: number;
}

/** The stream is open: the config that holds and what the server takes. */
export interface Ready {
  /** The config that holds, typed and complete, whatever form it was given in. */
  readonly processor: ProcessorConfig | undefined;
  /** SHA-256 of the config's canonical form. Equal digests give equal features. */
  readonly configSha256: Uint8Array;
  /** What the server ignored in the config. */
  readonly warnings: readonly FieldViolation[];
  readonly limits: StreamLimits;
  /** For UINT8 features: the value of each channel (3) and pixel value (256); `normalizeUint8` takes it. */
  readonly normalizeTable: Float32Array | undefined;
  /** Where features are made: "cpu", or a GPU's UUID. Empty for LOCAL. */
  readonly device: string;
  readonly serverVersion: string;
}

/** A 64-bit integer as a number. Throws ProtocolError where a number cannot hold it. */
export function safeNumber(value: bigint): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) {
    throw new ProtocolError(`Expected an integer of at most 2 ** 53 - 1, got ${value}`);
  }
  return number;
}

/** Reads a plan. Throws ProtocolError where a part of it is missing. */
export function imagePlan(message: ImagePlanMessage | undefined): ImagePlan {
  const { originalSize, resizedSize, padding, gridThw, geometry, crop, features } = message ?? {};
  if (!message || !originalSize || !resizedSize || !padding || !gridThw) {
    throw new ProtocolError("Expected a plan with its sizes, padding and grid, got one without");
  }
  return {
    originalSize: sizeOf(originalSize),
    resizedSize: sizeOf(resizedSize),
    padding: { rightPx: padding.rightPx, bottomPx: padding.bottomPx },
    // A grid of nothing says that rows are something else, be it known to this release or not.
    gridThw: gridThw.t === 0 ? undefined : [gridThw.t, gridThw.h, gridThw.w],
    tileGrid: geometry?.case === "tileGrid" ? tileGridOf(geometry.value) : undefined,
    fixedSize: geometry?.case === "fixedSize" ? sizeOf(geometry.value) : undefined,
    crop: crop && { leftPx: crop.leftPx, topPx: crop.topPx, ...sizeOf(crop) },
    tokenCount: message.tokenCount,
    dataType: features?.dataType ?? DataType.UNSPECIFIED,
    shape: features?.shape.map(safeNumber) ?? [],
    sizeBytes: features?.sizeBytes ?? 0,
  };
}

/** Reads a provenance. */
export function provenance(message: ProvenanceMessage): Provenance {
  return {
    configSha256: message.configSha256,
    contentSha256: message.contentSha256,
    resampleKernel: message.resampleKernel,
    route: message.route,
    pillowVersion: message.pillowVersion,
    serverVersion: message.serverVersion,
  };
}

/** Reads timings. */
export function itemTimings(message: ItemTimingsMessage | undefined): ItemTimings {
  return {
    planningMs: elapsedMs(message?.planning),
    queuedMs: elapsedMs(message?.queued),
    decodingMs: elapsedMs(message?.decoding),
    transformingMs: elapsedMs(message?.transforming),
  };
}

/** Reads limits. */
export function streamLimits(message: StreamLimitsMessage): StreamLimits {
  return {
    maxUnfinishedItems: message.maxUnfinishedItems,
    maxUnfinishedBytes: safeNumber(message.maxUnfinishedBytes),
    maxUnfinishedPixels: message.maxUnfinishedPixels,
    maxImageBytes: message.maxImageBytes,
    maxImageSidePx: message.maxImageSidePx,
    maxImagePixels: message.maxImagePixels,
    maxFeatureBytes: message.maxFeatureBytes,
    maxRequestBytes: message.maxRequestBytes,
    chunkBytes: message.chunkBytes,
  };
}

/** Reads the stream's opening. Throws ProtocolError where its limits or its table cannot be used. */
export function readyOf(message: ReadyMessage): Ready {
  if (message.limits === undefined) {
    throw new ProtocolError("Expected ready with limits, got none");
  }
  return {
    processor: message.processor,
    configSha256: message.configSha256,
    warnings: message.warnings.map(violation),
    limits: streamLimits(message.limits),
    normalizeTable: message.normalizeTable && normalizeTable(message.normalizeTable),
    device: message.device,
    serverVersion: message.serverVersion,
  };
}

function sizeOf({ widthPx, heightPx }: Size): Size {
  return { widthPx, heightPx };
}

function tileGridOf({ columns, rows, hasThumbnail, tileSizePx }: TileGrid): TileGrid {
  return { columns, rows, hasThumbnail, tileSizePx };
}

function normalizeTable(tensor: Tensor): Float32Array {
  const shape = tensor.spec?.shape.join(", ") ?? "";
  if (tensor.spec?.dataType !== DataType.FLOAT32 || shape !== "3, 256" || tensor.data.length !== 3 * 256 * 4) {
    throw new ProtocolError(`Expected a normalize table of FLOAT32 [3, 256], got one of ${tensor.data.length} bytes`);
  }
  return featureArray(DataType.FLOAT32, tensor.data.slice().buffer);
}

function elapsedMs(duration: Parameters<typeof milliseconds>[0] | undefined): number {
  return duration === undefined ? 0 : milliseconds(duration);
}
