import { create } from "@bufbuild/protobuf";

import { familyMessage, sourceHas, type FamilyConfig } from "./families.js";
import type { FeatureDataType } from "./features.js";
import {
  OutputConfigSchema,
  ProcessorConfigSchema,
  ResultOrder,
  type AlphaPolicy,
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
  /** A typed config: a family's own, or the message that a server answers with (`Ready.processor`). */
  readonly config: FamilyConfig | ProcessorConfig;
  /** The text of a `preprocessor_config.json`, as it ships with a checkpoint. */
  readonly checkpointJson: string;
}> & {
  /** The resize arithmetic, instead of the config's own. */
  readonly resampleKernel?: ResampleKernel;
  /** What to do with an image's EXIF orientation, instead of what the config says. */
  readonly orientationPolicy?: OrientationPolicy;
  /** What becomes of an alpha channel, instead of what the config says, in families that have the choice. */
  readonly alphaPolicy?: AlphaPolicy;
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

/**
 * The message that says the processor. Throws TypeError unless it is said in exactly one form, for a typed config that
 * is none, and for an `alphaPolicy` beside the typed config of a family that has no such choice.
 */
export function processorConfig(options: ProcessorOptions): ProcessorConfig {
  const { resampleKernel, orientationPolicy, alphaPolicy } = options;
  const message = givenProcessor(options);
  const { source } = message;
  if (source.case === undefined) {
    throw new TypeError("Expected config to say a processor, got an empty ProcessorConfig");
  }
  if (alphaPolicy !== undefined && !sourceHas(source, "alphaPolicy")) {
    throw new TypeError(`Expected no alphaPolicy for the family ${source.case}, got ${alphaPolicy}`);
  }
  Object.assign(source.value, {
    ...(resampleKernel !== undefined && { resampleKernel }),
    ...(orientationPolicy !== undefined && { orientationPolicy }),
    ...(alphaPolicy !== undefined && { alphaPolicy }),
  });
  return message;
}

/** The message that asks for features inline, in this element type and order. */
export function outputConfig(options: StreamOptions): OutputConfig {
  const { dataType, order = ResultOrder.AS_SENT, bypassCache = false } = options;
  const transport = { case: "inline", value: {} } as const;
  return create(OutputConfigSchema, { dataType, order, bypassCache, groupResponses: true, transport });
}

function givenProcessor({ preset, config, checkpointJson }: ProcessorOptions): ProcessorConfig {
  const given = Object.entries({ preset, config, checkpointJson }).filter(([, value]) => value !== undefined);
  if (given.length !== 1) {
    const names = given.map(([name]) => name).join(" and ");
    throw new TypeError(`Expected exactly one of preset, config and checkpointJson, got ${names || "none"}`);
  }
  if (config !== undefined) {
    return familyMessage(config);
  }
  return create(ProcessorConfigSchema, {
    source:
      preset !== undefined
        ? { case: "preset", value: { name: preset } }
        : { case: "checkpoint", value: { preprocessorConfigJson: checkpointJson } },
  });
}
