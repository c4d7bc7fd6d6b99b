import { endianness } from "node:os";

import { DataType } from "./gen/monopath/v1/tensor_pb.js";

/** An element type that features can have. */
export type FeatureDataType = Exclude<DataType, DataType.UNSPECIFIED>;

/**
 * The array that holds features of an element type. JavaScript has no 16-bit floats: BFLOAT16 and FLOAT16 are their bit
 * patterns, which `bfloat16ToFloat32` and `float16ToFloat32` read.
 */
export type FeatureArray<D extends FeatureDataType = FeatureDataType> = {
  [DataType.UINT8]: Uint8Array;
  [DataType.FLOAT32]: Float32Array;
  [DataType.BFLOAT16]: Uint16Array;
  [DataType.FLOAT16]: Uint16Array;
}[D];

const ARRAYS = {
  [DataType.UINT8]: Uint8Array,
  [DataType.FLOAT32]: Float32Array,
  [DataType.BFLOAT16]: Uint16Array,
  [DataType.FLOAT16]: Uint16Array,
} as const;

/** Whether a number, such as one from the wire, is an element type that features can have. */
export function isFeatureDataType(dataType: number): dataType is FeatureDataType {
  return dataType in ARRAYS;
}

/** Bytes of one element. */
export function elementBytes(dataType: FeatureDataType): number {
  return ARRAYS[dataType].BYTES_PER_ELEMENT;
}

/** The array over little-endian bytes; it shares their memory. `buffer` must hold whole elements. */
export function featureArray<D extends FeatureDataType>(dataType: D, buffer: ArrayBuffer): FeatureArray<D> {
  toHostOrder(new Uint8Array(buffer), elementBytes(dataType));
  return new ARRAYS[dataType](buffer) as FeatureArray<D>;
}

/** The little-endian bytes of an array. They may share its memory. */
export function featureBytes(array: FeatureArray): Uint8Array {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  if (endianness() === "LE") {
    return bytes;
  }
  const copy = bytes.slice();
  toHostOrder(copy, array.BYTES_PER_ELEMENT);
  return copy;
}

/** The values of BFLOAT16 bit patterns, exactly. */
export function bfloat16ToFloat32(bits: Uint16Array): Float32Array {
  const values = new Float32Array(bits.length);
  const words = new Uint32Array(values.buffer);
  for (let index = 0; index < bits.length; index++) {
    words[index] = bits[index]! << 16;
  }
  return values;
}

/** The values of FLOAT16 (IEEE 754 binary16) bit patterns, exactly. */
export function float16ToFloat32(bits: Uint16Array): Float32Array {
  const values = new Float32Array(bits.length);
  const words = new Uint32Array(values.buffer);
  for (let index = 0; index < bits.length; index++) {
    const half = bits[index]!;
    const sign = (half & 0x8000) << 16;
    const magnitude = half & 0x7fff;
    if (magnitude >= 0x7c00) {
      words[index] = sign | 0x7f800000 | ((magnitude & 0x3ff) << 13); // infinity or NaN
    } else if (magnitude >= 0x0400) {
      words[index] = sign | ((magnitude << 13) + 0x38000000); // the exponent's bias goes from 15 to 127
    } else {
      values[index] = (sign === 0 ? magnitude : -magnitude) * 2 ** -24; // zero or subnormal
    }
  }
  return values;
}

/**
 * Finishes UINT8 features of a plan's `shape` ([rows, channels, height, width], frames behind the channels) to FLOAT32,
 * as the checkpoint's own processor does. `table` is `Ready.normalizeTable`: the value of each channel (3) and pixel value (256).
 */
export function normalizeUint8(features: Uint8Array, shape: readonly number[], table: Float32Array): Float32Array {
  const [, channels = 0, ...ofChannel] = shape;
  const plane = ofChannel.reduce((product, length) => product * length, 1);
  if (shape.length < 4 || channels * 256 !== table.length || features.length % (channels * plane) !== 0) {
    throw new RangeError(
      `Expected features of shape [rows, ${table.length / 256}, ..., height, width], got [${shape.join(", ")}]`,
    );
  }
  const values = new Float32Array(features.length);
  for (let start = 0, channel = 0; start < values.length; start += plane, channel = (channel + 1) % channels) {
    for (let index = start; index < start + plane; index++) {
      values[index] = table[channel * 256 + features[index]!]!;
    }
  }
  return values;
}

function toHostOrder(bytes: Uint8Array, size: number): void {
  if (endianness() === "BE" && size > 1) {
    const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    size === 2 ? view.swap16() : view.swap32();
  }
}
