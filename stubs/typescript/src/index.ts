/**
 * A typed client of monopath: images in, the features that a vision-language model's encoder reads out.
 *
 * It speaks gRPC over HTTP/2 through Connect for Node (`@connectrpc/connect-node`) and protobuf-es. grpc-js was tried
 * beside it, over the same streams: with windows of 8 MiB both read about 0.4 GB/s on one core, and both told the
 * reason of a stream that is refused while they still write, 100 times of 100. Connect was taken because a
 * bidirectional call is an async iterable of typed messages each way, pulled only as the wire takes them; because
 * protobuf-es is generated for it, and reads the details of a status; and because an idle connection does not keep the
 * process alive.
 *
 * @module
 */
export { createClient, type CallOptions, type Client } from "./client.js";
export type { ProcessorOptions, StreamOptions } from "./config.js";
export {
  ItemError,
  MonopathError,
  ProtocolError,
  StreamError,
  StreamMoved,
  type FieldViolation,
  type ItemReason,
  type StatusCode,
  type StreamReason,
} from "./errors.js";
export type { Family, FamilyConfig } from "./families.js";
export {
  bfloat16ToFloat32,
  float16ToFloat32,
  normalizeUint8,
  type FeatureArray,
  type FeatureDataType,
} from "./features.js";
export {
  AlphaPolicy,
  BackgroundPattern,
  OrientationPolicy,
  ResampleFilter,
  ResampleKernel,
  ResultOrder,
  TransparentFillStage,
} from "./gen/monopath/v1/config_pb.js";
export { CacheOutcome, Route } from "./gen/monopath/v1/event_pb.js";
export { PixelFormat } from "./gen/monopath/v1/image_pb.js";
export { DataType } from "./gen/monopath/v1/tensor_pb.js";
export type { DeferredPath, Image, ImageItem, Input, ItemOptions, LocalItem, RawImage } from "./inputs.js";
export type { Path } from "./paths.js";
export type { Availability, Capabilities, PlannedImage, PlanOptions, PlanReply } from "./planning.js";
export type {
  Crop,
  GridThw,
  ImagePlan,
  ItemTimings,
  Provenance,
  Ready,
  Size,
  StreamLimits,
  TileGrid,
} from "./records.js";
export { concatenate, type Completed, type Failed, type FeatureBatch, type PlanEvent, type Result } from "./results.js";
export type { FeatureStream, MapOptions } from "./stream.js";
export type { Pem, TlsOptions } from "./tls.js";
export type { TokenSource } from "./token.js";
export type { ClientOptions } from "./transport.js";
