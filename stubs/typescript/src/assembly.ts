import { ProtocolError } from "./errors.js";
import { elementBytes, featureArray, type FeatureArray, type FeatureDataType } from "./features.js";
import type { ImagePlan } from "./records.js";

/** The features of one item, in the making: one buffer of the plan's size, which chunks fill in order. */
export class FeatureAssembly<D extends FeatureDataType> {
  readonly #dataType: D;
  readonly #bytes: Uint8Array<ArrayBuffer>;
  #receivedBytes = 0;

  /** Throws ProtocolError for a plan of another tensor than was asked for, or of more than `maxBytes`. */
  constructor(plan: ImagePlan, dataType: D, maxBytes: number) {
    if (plan.dataType !== dataType || plan.shape.length === 0) {
      throw new ProtocolError(`Expected a plan with features of element type ${dataType}, got ${plan.dataType}`);
    }
    const planned = plan.shape.reduce((product, length) => product * length, elementBytes(dataType));
    if (plan.sizeBytes !== planned || planned > maxBytes) {
      throw new ProtocolError(
        `Expected a plan of ${planned} bytes, as its shape says, and at most ${maxBytes}, got ${plan.sizeBytes}`,
      );
    }
    this.#dataType = dataType;
    this.#bytes = new Uint8Array(planned);
  }

  /** Takes the next chunk. Throws ProtocolError where it leaves a gap, overlaps, or is too long. */
  add(offsetBytes: number, data: Uint8Array): void {
    const end = offsetBytes + data.length;
    if (offsetBytes !== this.#receivedBytes || end > this.#bytes.length) {
      throw new ProtocolError(
        `Expected a chunk from byte ${this.#receivedBytes} up to ${this.#bytes.length}, got ${offsetBytes} to ${end}`,
      );
    }
    this.#bytes.set(data, offsetBytes);
    this.#receivedBytes = end;
  }

  /** The complete features. Throws ProtocolError where bytes are missing. */
  finish(): FeatureArray<D> {
    if (this.#receivedBytes !== this.#bytes.length) {
      throw new ProtocolError(`Expected ${this.#bytes.length} bytes of features, got ${this.#receivedBytes}`);
    }
    return featureArray(this.#dataType, this.#bytes.buffer);
  }
}
