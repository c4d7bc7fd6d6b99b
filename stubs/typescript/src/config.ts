import { clone, create, type MessageInitShape } from "@bufbuild/protobuf";

import type { FeatureDataType } from "./features.js";
import {
  KimiConfigSchema,
  OutputConfigSchema,
  ProcessorConfigSchema,
  ResultOrder,
  type OrientationPolicy,
  type OutputConfig,
  type ProcessorConfig,
  type ResampleKernel,
} from "./gen/monopath/v1/config_pb.js";

/** One of the properties, and none of the others. */
type OneOf<T> = { [K in keyof T]: Pick<T, K> & { readonly [Other in Exclude<keyof T, K>]?: never } }[keyof T];

/** The processor, in exactly one of three forms. */
export type ProcessorOptions = OneOf<{
  /** A config that the server has under a name: "kimi-k3". */
  readonly preset: string;
  /** A typed config. */
  readonly config: MessageInitShape<typeof KimiConfigSchema>;
  /** The text of a `preprocessor_config.json`, as it ships with a checkpoint. */
  readonly checkpointJson: string;
}> & {
  /** The resize arithmetic, instead of the config's own. */
  readonly resampleKernel?: ResampleKernel;
  /** What to do with an image's EXIF orientation, instead of what the config says. */
  readonly orientationPolicy?: OrientationPolicy;
};

/** What a stream is opened with. */
export type StreamOptions<D extends FeatureDataType = FeatureDataType> = ProcessorOptions & {
  /** Element type of the features. */
  readonly dataType: D;
  /** Order in which results come. Absent: AS_SENT. */
  readonly order?: ResultOrder;
  /** Neither take features from the server's cache nor put them there. */
  readonly bypassCache?: boolean;
};

/** The message that says the processor. Throws TypeError unless it is said in exactly one form. */
export function processorConfig(options: ProcessorOptions): ProcessorConfig {
  const { preset, config, checkpointJson, resampleKernel, orientationPolicy } = options;
  const given = Object.entries({ preset, config, checkpointJson }).filter(([, value]) => value !== undefined);
  if (given.length !== 1) {
    const names = given.map(([name]) => name).join(" and ");
    throw new TypeError(`Expected exactly one of preset, config and checkpointJson, got ${names || "none"}`);
  }
  const instead = {
    ...(resampleKernel !== undefined && { resampleKernel }),
    ...(orientationPolicy !== undefined && { orientationPolicy }),
  };
  if (preset !== undefined) {
    return create(ProcessorConfigSchema, { source: { case: "preset", value: { name: preset, ...instead } } });
  }
  if (checkpointJson !== undefined) {
    const value = { preprocessorConfigJson: checkpointJson, ...instead };
    return create(ProcessorConfigSchema, { source: { case: "checkpoint", value } });
  }
  const typed = Object.assign(clone(KimiConfigSchema, create(KimiConfigSchema, config)), instead);
  return create(ProcessorConfigSchema, { source: { case: "kimi", value: typed } });
}

/** The message that asks for features inline, in this element type and order. */
export function outputConfig(options: StreamOptions): OutputConfig {
  const { dataType, order = ResultOrder.AS_SENT, bypassCache = false } = options;
  return create(OutputConfigSchema, { dataType, order, bypassCache, transport: { case: "inline", value: {} } });
}
