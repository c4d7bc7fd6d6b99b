import assert from "node:assert/strict";
import { test } from "node:test";

import { bfloat16ToFloat32, DataType, float16ToFloat32, normalizeUint8 } from "../src/index.js";
import { elementBytes, featureArray, featureBytes } from "../src/features.js";

const EVERY_PATTERN = Uint16Array.from({ length: 65536 }, (_, bits) => bits);

/** The value of a binary float by its definition. */
function valueOf(bits: number, exponentBits: number, fractionBits: number): number {
  const fraction = bits & (2 ** fractionBits - 1);
  const exponent = (bits >> fractionBits) & (2 ** exponentBits - 1);
  const bias = 2 ** (exponentBits - 1) - 1;
  const sign = bits >> (exponentBits + fractionBits) === 1 ? -1 : 1;
  if (exponent === 2 ** exponentBits - 1) {
    return fraction === 0 ? sign * Infinity : NaN;
  }
  const significand = fraction / 2 ** fractionBits + (exponent === 0 ? 0 : 1);
  return sign * significand * 2 ** (Math.max(exponent, 1) - bias);
}

test("every bfloat16 pattern has the value that its bits say", () => {
  bfloat16ToFloat32(EVERY_PATTERN).forEach((value, bits) =>
    assert.ok(Object.is(value, valueOf(bits, 8, 7)), `${bits}`),
  );
});

test("every float16 pattern has the value that its bits say", () => {
  float16ToFloat32(EVERY_PATTERN).forEach((value, bits) =>
    assert.ok(Object.is(value, valueOf(bits, 5, 10)), `${bits}`),
  );
});

test("features are read and written as little-endian bytes without a copy of them", () => {
  const bytes = Uint8Array.of(0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0);
  const values = featureArray(DataType.FLOAT32, bytes.buffer);
  assert.deepEqual([...values], [1, -2]);
  assert.equal(values.buffer, bytes.buffer);
  assert.deepEqual(featureBytes(values), bytes);
  assert.deepEqual([1, 2, 3, 4].map(elementBytes), [1, 4, 2, 2]);
});

test("a view into a larger buffer is written as that view alone", () => {
  const view = new Uint16Array(Uint16Array.of(1, 2, 3, 4).buffer, 2, 2);
  assert.deepEqual([...featureBytes(view)], [2, 0, 3, 0]);
});

test("uint8 features are looked up channel by channel", () => {
  const table = Float32Array.from({ length: 768 }, (_, index) => Math.floor(index / 256) * 1000 + (index % 256));
  const features = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
  const values = normalizeUint8(features, [2, 3, 1, 2], table);
  assert.deepEqual([...values], [1, 2, 1003, 1004, 2005, 2006, 7, 8, 1009, 1010, 2011, 2012]);
  const ofTwoFrames = normalizeUint8(features, [1, 3, 2, 1, 2], table);
  assert.deepEqual([...ofTwoFrames], [1, 2, 3, 4, 1005, 1006, 1007, 1008, 2009, 2010, 2011, 2012]);
  assert.throws(() => normalizeUint8(features, [2, 3, 2], table), RangeError);
  assert.throws(() => normalizeUint8(features, [2, 1, 3, 2], table), RangeError);
});
