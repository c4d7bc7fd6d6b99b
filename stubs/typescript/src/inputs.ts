// What a caller may send: images for the deferred paths, finished features for the local one.

import { create, type MessageInitShape } from "@bufbuild/protobuf";

import { featureArray, featureBytes, type FeatureArray, type FeatureDataType } from "./features.js";
import type { ImageSourceSchema, PixelFormat } from "./gen/monopath/v1/image_pb.js";
import {
  StreamDeferredCpuRequestSchema,
  StreamDeferredCudaRequestSchema,
  StreamLocalRequestSchema,
} from "./gen/monopath/v1/service_pb.js";
import type { Path, RequestByPath } from "./paths.js";
import type { GridThw, Size, TileGrid } from "./records.js";

/** Decoded pixels: 8 bits a channel, channels interleaved, lines top to bottom without gaps. */
export interface RawImage {
  readonly pixels: Uint8Array | Uint8ClampedArray;
  readonly widthPx: number;
  readonly heightPx: number;
  /** Channels of a pixel and their order; never guessed. */
  readonly format: PixelFormat;
}

/** An image: the bytes of a file (JPEG, PNG, WebP, ...), or decoded pixels. */
export type Image = Uint8Array | RawImage;

/** What may be said about an item besides its content. */
export interface ItemOptions {
  /** Free text; comes back with the item's result. */
  readonly label?: string;
  /** W3C trace context of this item. */
  readonly traceparent?: string;
}

/** An image with what may be said about it, for a stream of the path `P`. */
export interface ImageItem<P extends DeferredPath> extends ItemOptions {
  readonly path: P;
  readonly image: Image;
  /** SHA-256 that the image's bytes must have, checked before they are decoded. */
  readonly expectedSha256?: Uint8Array;
}

/** Finished features of one image. */
export interface LocalItem extends ItemOptions {
  readonly path: "LOCAL";
  /** The features, row-major. They are read while they are sent: leave them unchanged until their result has come. */
  readonly features: FeatureArray;
  readonly dataType: FeatureDataType;
  /** Rows, channels, height and width of a row's pixels; frames behind the channels. Must be the plan's. */
  readonly shape: readonly number[];
  /** Size of the image that the features were made of, after the config's orientation policy was applied. */
  readonly originalSize: Size;
  /** The patch grid that the caller computed. Must be the plan's; absent for a family that has none. */
  readonly gridThw?: GridThw | undefined;
  /** The tiles that the caller computed, which must be the plan's. Absent: not said, or none. */
  readonly tileGrid?: TileGrid | undefined;
  /** The token count that the caller computed. Must be the plan's; 0 where the config does not say how many. */
  readonly tokenCount: number;
  /** SHA-256 of the source image, if it is wanted in the provenance. */
  readonly contentSha256?: Uint8Array;
}

/** Paths whose clients send images. */
export type DeferredPath = Exclude<Path, "LOCAL">;

/** What the stream of a path takes. */
export type Input<P extends Path> = P extends DeferredPath ? Image | ImageItem<P> : LocalItem;

/** An input that is ready to be sent. */
export interface Outgoing<P extends Path> {
  readonly label: string;
  /** Bytes of the image or the features. */
  readonly payloadBytes: number;
  /** Bytes of the largest request, or a little more. */
  readonly requestBytes: number;
  /** The requests to write for it. */
  requests(id: number): Iterable<RequestByPath[P]>;
}

const LOCAL_CHUNK_BYTES = 1 << 20;
const ENVELOPE_BYTES = 256;

/** Makes an image ready for a stream of a deferred path. Throws TypeError for a thing that is none. */
export function outgoingImage<P extends DeferredPath>(
  path: P,
  input: Image | ImageItem<P>,
  request: (id: number, item: ImageFields) => RequestByPath[P],
): Outgoing<P> {
  const item: ImageItem<P> = isItem(input) ? input : { path, image: input };
  checkPath(item.path, path);
  const { label = "", traceparent = "", expectedSha256 = new Uint8Array() } = item;
  const image = imageSource(item.image);
  const payloadBytes = item.image instanceof Uint8Array ? item.image.length : item.image.pixels.length;
  return {
    label,
    payloadBytes,
    requestBytes: payloadBytes + textBytes(label) + textBytes(traceparent) + ENVELOPE_BYTES,
    requests: (id) => [request(id, { label, traceparent, expectedSha256, image })],
  };
}

/** The fields that an item has on each deferred path. */
export interface ImageFields {
  label: string;
  traceparent: string;
  expectedSha256: Uint8Array;
  image: MessageInitShape<typeof ImageSourceSchema>;
}

export function cpuItemRequest(id: number, item: ImageFields): RequestByPath["DEFERRED_CPU"] {
  return create(StreamDeferredCpuRequestSchema, { payload: { case: "item", value: { id, ...item } } });
}

export function cudaItemRequest(id: number, item: ImageFields): RequestByPath["DEFERRED_CUDA"] {
  return create(StreamDeferredCudaRequestSchema, { payload: { case: "item", value: { id, ...item } } });
}

/** Makes finished features ready for a stream. Throws TypeError for a thing that is none. */
export function outgoingFeatures(item: LocalItem): Outgoing<"LOCAL"> {
  if (typeof item !== "object" || item === null || !isItem(item)) {
    throw new TypeError(`Expected features as a LocalItem, got ${describe(item)}`);
  }
  checkPath(item.path, "LOCAL");
  const { label = "", traceparent = "", contentSha256 = new Uint8Array(), originalSize, tokenCount } = item;
  // A plan without a grid is met by an empty one: the contract wants the field.
  const [t, h, w] = item.gridThw ?? [0, 0, 0];
  if (!(item.features instanceof featureArray(item.dataType, new ArrayBuffer(0)).constructor)) {
    throw new TypeError(`Expected features in the array of their element type, got ${describe(item.features)}`);
  }
  const bytes = featureBytes(item.features);
  const spec = { dataType: item.dataType, shape: item.shape.map(BigInt), sizeBytes: bytes.length };
  return {
    label,
    payloadBytes: bytes.length,
    requestBytes: textBytes(label) + textBytes(traceparent) + LOCAL_CHUNK_BYTES + ENVELOPE_BYTES,
    *requests(id) {
      const value = {
        id,
        label,
        originalSize,
        gridThw: { t, h, w },
        tokenCount,
        features: spec,
        traceparent,
        contentSha256,
        ...(item.tileGrid && { tileGrid: item.tileGrid }),
      };
      yield create(StreamLocalRequestSchema, { payload: { case: "item", value } });
      for (let offsetBytes = 0; offsetBytes < bytes.length; offsetBytes += LOCAL_CHUNK_BYTES) {
        const data = bytes.subarray(offsetBytes, offsetBytes + LOCAL_CHUNK_BYTES);
        yield create(StreamLocalRequestSchema, {
          payload: { case: "itemFeatures", value: { id, location: { case: "chunk", value: { offsetBytes, data } } } },
        });
      }
    },
  };
}

function imageSource(image: Image): MessageInitShape<typeof ImageSourceSchema> {
  if (image instanceof Uint8Array) {
    return { content: { case: "encoded", value: { location: { case: "data", value: image } } } };
  }
  if (typeof image === "object" && image !== null && ArrayBuffer.isView(image.pixels)) {
    const { pixels, widthPx, heightPx, format } = image;
    const data = new Uint8Array(pixels.buffer, pixels.byteOffset, pixels.byteLength);
    return {
      content: { case: "pixels", value: { widthPx, heightPx, format, location: { case: "data", value: data } } },
    };
  }
  throw new TypeError(`Expected an image as the bytes of its file (Uint8Array) or a RawImage, got ${describe(image)}`);
}

function isItem<I extends { readonly path: Path }>(input: I | Image): input is I {
  return typeof input === "object" && input !== null && "path" in input;
}

function checkPath(found: Path, expected: Path): void {
  if (found !== expected) {
    throw new TypeError(`Expected an item of the path ${expected}, got one of ${found}`);
  }
}

function textBytes(text: string): number {
  return Buffer.byteLength(text);
}

function describe(value: unknown): string {
  return typeof value === "object" && value !== null ? (value.constructor?.name ?? "an object") : typeof value;
}
