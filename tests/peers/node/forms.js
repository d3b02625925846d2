// Conversion of records between MessagePack and JSON lines, as in ../python/forms.py.

import { decodeMulti, encode, ExtData } from "@msgpack/msgpack";

const RAW_TYPES = [-1, 127];

// Only msgpack's own types are decoded; extensions stay as they are.
const extensionCodec = {
  tryToEncode: (object) => (object instanceof ExtData ? object : null),
  decode: (data, type) => new ExtData(type, data),
};
// Keys of objects are texts, so the key of a map is the JSON of its form.
const mapKeyConverter = (key) => JSON.stringify(toJson(key));
const DECODING = { extensionCodec, mapKeyConverter, useBigInt64: true };
const ENCODING = { extensionCodec, useBigInt64: true };

/** Return the JSON form of an unpacked record. */
export function toJson(value) {
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString("hex") };
  if (value instanceof ExtData) {
    const content = RAW_TYPES.includes(value.type) ? value.data : unpack(value.data);
    return { type: value.type, content: toJson(content) };
  }
  if (Array.isArray(value)) return value.map(toJson);
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : { integer: String(value) };
  }
  if (typeof value === "number" && Number.isNaN(value)) return { float: "nan" };
  if (value === Infinity || value === -Infinity) return { float: value > 0 ? "inf" : "-inf" };
  if (value !== null && typeof value === "object") {
    return { map: Object.entries(value).map(([key, item]) => [JSON.parse(key), toJson(item)]) };
  }
  return value;
}

/** Return the bytes of a JSON form. Arrays and maps have their longest heads. */
export function packJson(value) {
  if (Array.isArray(value)) return joined(0xdd, value.length, value.map(packJson));
  if (value === null || typeof value !== "object") {
    const isLong = Number.isSafeInteger(value) && Math.abs(value) >= 2 ** 31;
    return encode(isLong ? BigInt(value) : value, ENCODING);
  }
  if ("bytes" in value) return encode(Buffer.from(value.bytes, "hex"), ENCODING);
  if ("map" in value) return joined(0xdf, value.map.length, value.map.flat(1).map(packJson));
  if ("integer" in value) return encode(BigInt(value.integer), ENCODING);
  if ("float" in value) return encode(Number(value.float.replace("inf", "Infinity")), ENCODING);
  const { type, content } = value;
  const data = RAW_TYPES.includes(type) ? Buffer.from(content.bytes, "hex") : packJson(content);
  return encode(new ExtData(type, data), ENCODING);
}

function joined(marker, length, parts) {
  const head = Buffer.alloc(5);
  head[0] = marker;
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, ...parts]);
}

/** Return the value of these bytes, which must be exactly one. */
export function unpack(data) {
  const found = unpackAll(data);
  if (found.length !== 1) throw new RangeError(`${found.length} values in place of one`);
  return found[0];
}

/** Return consecutive values. */
export function unpackAll(data) {
  return [...decodeMulti(data, DECODING)];
}
