// The unary calls: their requests, and their replies as plain values.

import { create } from "@bufbuild/protobuf";

import { processorConfig, type ProcessorOptions } from "./config.js";
import { ProtocolError, type FieldViolation, type ItemError } from "./errors.js";
import type { FeatureDataType } from "./features.js";
import type { ProcessorConfig, ResampleKernel } from "./gen/monopath/v1/config_pb.js";
import type { PixelFormat } from "./gen/monopath/v1/image_pb.js";
import {
  PlanRequestSchema,
  type GetCapabilitiesResponse,
  type PlannedImage as PlannedImageMessage,
  type PlanRequest,
  type PlanResponse,
} from "./gen/monopath/v1/service_pb.js";
import type { DataType } from "./gen/monopath/v1/tensor_pb.js";
import { pathName } from "./paths.js";
import { imagePlan, safeNumber, streamLimits, type ImagePlan, type Size, type StreamLimits } from "./records.js";
import { itemErrorOf, violation } from "./status.js";

/** What is planned with. */
export type PlanOptions = ProcessorOptions & {
  /** Element type of the tensors in the plans. Absent: plans without tensors. */
  readonly dataType?: FeatureDataType;
  /** Encoder ranks to share the images out to. Absent: no ranks are assigned. */
  readonly encoderRankCount?: number;
};

/** The plan of one image, or why it has none: one of the two is there. */
export interface PlannedImage {
  /** The image's place among the sizes, counted from 1. */
  readonly id: number;
  readonly plan: ImagePlan | undefined;
  readonly error: ItemError | undefined;
  /** The encoder rank that owns the image. Undefined where no ranks were asked for, or without a plan. */
  readonly encoderRank: number | undefined;
}

/** Plans in the order of the sizes asked for. */
export interface PlanReply {
  readonly images: readonly PlannedImage[];
  /** One for each rank, where ranks were asked for. */
  readonly encoderRanks: readonly { readonly rank: number; readonly imageCount: number; readonly patchCount: number }[];
  /** The config that holds, typed and complete. */
  readonly processor: ProcessorConfig | undefined;
  /** SHA-256 of the config's canonical form. */
  readonly configSha256: Uint8Array;
  /** What the server ignored in the config. */
  readonly warnings: readonly FieldViolation[];
}

/** Something that a server may have: a path or a transport. */
export interface Availability {
  readonly name: string;
  readonly available: boolean;
  /** Why it is not, in words. Empty where it is. */
  readonly unavailableReason: string;
}

/** What a server can do. */
export interface Capabilities {
  readonly contractVersion: string;
  readonly serverVersion: string;
  /** By the names of `Path`. */
  readonly paths: readonly Availability[];
  readonly transports: readonly Availability[];
  readonly devices: readonly {
    /** "cpu", or the GPU's UUID. */
    readonly id: string;
    readonly name: string;
    readonly paths: readonly string[];
    /** Bytes of its memory; 0 for the CPU. */
    readonly memoryBytes: number;
  }[];
  /** Configs that the server has under names. */
  readonly presets: readonly {
    readonly name: string;
    readonly processor: ProcessorConfig | undefined;
    readonly configSha256: Uint8Array;
  }[];
  readonly dataTypes: readonly DataType[];
  readonly limits: StreamLimits;
  /** By Pillow's names: "JPEG", "PNG". */
  readonly imageFormats: readonly string[];
  readonly pixelFormats: readonly PixelFormat[];
  readonly resampleKernels: readonly ResampleKernel[];
  readonly pillowVersion: string;
}

/** The request to plan images of these sizes. */
export function planRequest(sizes: Iterable<Size>, options: PlanOptions): PlanRequest {
  const { dataType, encoderRankCount } = options;
  return create(PlanRequestSchema, {
    processor: processorConfig(options),
    images: Array.from(sizes, (size, index) => ({ id: index + 1, size })),
    ...(dataType !== undefined && { dataType }),
    ...(encoderRankCount !== undefined && { encoderRankCount }),
  });
}

/** Reads the reply. Throws ProtocolError where it is not one plan or error for each size, in their order. */
export function planReply(message: PlanResponse, sizeCount: number): PlanReply {
  if (message.images.length !== sizeCount || message.images.some((image, index) => image.id !== index + 1)) {
    throw new ProtocolError(`Expected plans of the images 1 to ${sizeCount} in their order, got others`);
  }
  return {
    images: message.images.map(plannedImage),
    encoderRanks: message.encoderRanks.map(({ rank, imageCount, patchCount }) => ({
      rank,
      imageCount,
      patchCount: safeNumber(patchCount),
    })),
    processor: message.processor,
    configSha256: message.configSha256,
    warnings: message.warnings.map(violation),
  };
}

/** Reads what a server can do. Throws ProtocolError where it does not say its limits. */
export function capabilities(message: GetCapabilitiesResponse): Capabilities {
  if (message.limits === undefined) {
    throw new ProtocolError("Expected capabilities with limits, got none");
  }
  const { contractVersion, serverVersion, dataTypes, imageFormats, pixelFormats, resampleKernels } = message;
  return {
    contractVersion,
    serverVersion,
    paths: message.paths.map(({ path, available, unavailableReason }) => ({
      name: pathName(path),
      available,
      unavailableReason,
    })),
    transports: message.transports.map(({ name, available, unavailableReason }) => ({
      name,
      available,
      unavailableReason,
    })),
    devices: message.devices.map(({ id, name, paths, memoryBytes }) => ({
      id,
      name,
      paths: paths.map(pathName),
      memoryBytes: safeNumber(memoryBytes),
    })),
    presets: message.presets.map(({ name, processor, configSha256 }) => ({ name, processor, configSha256 })),
    dataTypes,
    limits: streamLimits(message.limits),
    imageFormats,
    pixelFormats,
    resampleKernels,
    pillowVersion: message.pillowVersion,
  };
}

function plannedImage({ id, outcome, encoderRank }: PlannedImageMessage): PlannedImage {
  if (outcome.case === undefined) {
    throw new ProtocolError(`Expected a plan or an error for image ${id}, got neither`);
  }
  return {
    id,
    plan: outcome.case === "plan" ? imagePlan(outcome.value) : undefined,
    error: outcome.case === "error" ? itemErrorOf(outcome.value) : undefined,
    encoderRank,
  };
}
