// Typed configs: one message of the contract for each model family.

import { clone, create, isMessage, type DescField, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";

import { ProcessorConfigSchema, type ProcessorConfig } from "./gen/monopath/v1/config_pb.js";

/** What a config can come from besides its family's own numbers. */
type Reference = "preset" | "checkpoint";

type FamilyArm = Exclude<ProcessorConfig["source"], { case: Reference | undefined }>;

/** A model family, by the name of its arm in the contract's `ProcessorConfig.source`: "kimi", "qwenVl". */
export type Family = FamilyArm["case"];

/**
 * The config of one family, as the contract's `ProcessorConfig.source` has it: `case` says which, `value` has its
 * fields. It is a union over all families of the contract, so that a `switch` over `case` can be exhaustive.
 */
export type FamilyConfig = {
  [F in Family]: {
    readonly case: F;
    readonly value: MessageInitShape<GenMessage<Extract<FamilyArm, { case: F }>["value"]>>;
  };
}[Family];

const REFERENCES: readonly string[] = ["preset", "checkpoint"] satisfies Reference[];
const SOURCES = ProcessorConfigSchema.oneofs.flatMap(({ fields }) => fields);
const FAMILIES = SOURCES.filter(({ localName }) => !REFERENCES.includes(localName));

/**
 * The message of a typed config; what was given stays as it is. Throws TypeError for a family that the contract does
 * not have, and for a field that the family does not have: it would be left out in silence.
 */
export function familyMessage(config: FamilyConfig | ProcessorConfig): ProcessorConfig {
  if (isMessage(config, ProcessorConfigSchema)) {
    return clone(ProcessorConfigSchema, config);
  }
  const { case: family, value } = (config ?? {}) as { case?: unknown; value?: unknown };
  const schema = armOf(FAMILIES, family, "config").message!;
  checkFields(schema, value, "config.value");
  const message = clone(schema, create(schema, value));
  return create(ProcessorConfigSchema, { source: { case: family, value: message } as FamilyArm });
}

/** Whether a config's source has a field. */
export function sourceHas(source: ProcessorConfig["source"], field: string): boolean {
  const schema = SOURCES.find(({ localName }) => localName === source.case)?.message;
  return schema?.field[field] !== undefined;
}

function checkFields(schema: DescMessage, value: unknown, where: string): asserts value is Record<string, unknown> {
  const names = schema.members.map(({ localName }) => localName);
  if (typeof value !== "object" || value === null) {
    throw new TypeError(`Expected ${where} to be an object of ${names.join(", ")}, got ${String(value)}`);
  }
  if (isMessage(value)) {
    if (value.$typeName !== schema.typeName) {
      throw new TypeError(`Expected ${where} to be of ${schema.typeName}, got ${value.$typeName}`);
    }
    return;
  }
  for (const [name, inner] of Object.entries(value)) {
    const member = schema.members.find(({ localName }) => localName === name);
    if (member === undefined) {
      throw new TypeError(`Expected ${where} to have no more than ${names.join(", ")}, got ${name}`);
    }
    if (inner !== undefined) {
      checkMember(member, inner, `${where}.${name}`);
    }
  }
}

function checkMember(member: DescMessage["members"][number], value: unknown, where: string): void {
  if (member.kind === "oneof") {
    const oneof = (value ?? {}) as { case?: unknown; value?: unknown };
    if (!("case" in oneof) || oneof.case !== undefined) {
      checkMember(armOf(member.fields, oneof.case, where), oneof.value, `${where}.value`);
    } // Else it is what protobuf-es has for none of the arms.
  } else if (member.fieldKind === "message") {
    checkFields(member.message, value, where);
  }
}

function armOf(arms: readonly DescField[], name: unknown, where: string): DescField {
  const arm = arms.find(({ localName }) => localName === name);
  if (arm === undefined) {
    const names = arms.map(({ localName }) => localName).join(", ");
    throw new TypeError(`Expected ${where}.case to be one of ${names}, got ${JSON.stringify(name) ?? "none"}`);
  }
  return arm;
}
