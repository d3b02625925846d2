// Conversion of events between bodies and JSON, as in ../python/events.py.

import { PeerError } from "./wire.js";

const FORMS = {
  CheckpointBarrier: [1, ["checkpoint:l", "moment:l", "kind:b", "alignment:b", "time-out:u"]],
  CancelCheckpointMarker: [2, ["checkpoint:l"]],
  Watermark: [3, ["moment:l"]],
  WatermarkStatus: [4, ["status:b"]],
  LatencyMarker: [5, ["moment:l", "operator:t", "subtask:u"]],
};
const NAMES = Object.fromEntries(Object.entries(FORMS).map(([name, [kind]]) => [kind, name]));
const MOST = { kind: 3, alignment: 3, status: 1 };
const EVENT = 2, OVERTAKES = 3, BARRIER = 4, TIMEOUTABLE = 5, END_OF_STATE = 6;
export const BLOCKING = [BARRIER, TIMEOUTABLE, END_OF_STATE];

const WRITE = {
  l: (value) => {
    const bytes = Buffer.alloc(9, 0xd3);
    bytes.writeBigInt64BE(BigInt(value), 1);
    return bytes;
  },
  b: (value) => Buffer.from([value]),
  u: (value) => {
    const bytes = Buffer.alloc(5, 0xce);
    bytes.writeUInt32BE(value, 1);
    return bytes;
  },
  t: (value) => {
    const raw = Buffer.from(value);
    return Buffer.concat([Buffer.from([0xd9, raw.length]), raw]);
  },
};

const READ = {
  l: (data) => [Number(data.readBigInt64BE(1)), data.subarray(9)],
  b: (data) => [data.readUInt8(0), data.subarray(1)],
  u: (data) => [data.readUInt32BE(1), data.subarray(5)],
  t: (data) => [data.subarray(2, 2 + data.readUInt8(1)).toString(), data.subarray(2 + data[1])],
};

/** Return the data type and the body of an event. */
export function encode(event) {
  if (event.event === "EndOfChannelState") return [END_OF_STATE, Buffer.from([0x90])];
  const [kind, elements] = FORMS[event.event];
  const parts = elements.map((element) => {
    const [name, form] = element.split(":");
    return WRITE[form](event[name]);
  });
  return [dataType(event), Buffer.concat([Buffer.from([0x91 + parts.length, kind]), ...parts])];
}

function dataType(event) {
  if (event.event !== "CheckpointBarrier" || event.alignment === 3) return EVENT;
  if (event.alignment === 1) return OVERTAKES;
  return event.alignment === 0 && event["time-out"] ? TIMEOUTABLE : BARRIER;
}

/** Return the event of a body, or null for an unknown kind; PeerError if it is malformed. */
export function decode(type, body) {
  const wrong = () => new PeerError(`an event of the wrong form: ${body.toString("hex")}`);
  if (type === END_OF_STATE) {
    if (body.toString("hex") !== "90") throw wrong();
    return { event: "EndOfChannelState" };
  }
  if (body.length < 2 || body[0] < 0x91 || body[0] > 0x9f || body[1] > 127) throw wrong();
  if (type === OVERTAKES && body[1] === 0) throw new PeerError("an announcement");
  const name = NAMES[body[1]];
  if (!name && !BLOCKING.includes(type)) return null;
  const event = { event: name };
  let same;
  try {
    let rest = body.subarray(2);
    for (const element of FORMS[name][1]) {
      const [key, form] = element.split(":");
      [event[key], rest] = READ[form](rest);
    }
    const [expected, bytes] = encode(event);
    same = type === expected && body.equals(bytes);
  } catch {
    throw wrong();
  }
  const { kind = 0, alignment = 0, checkpoint = 0, "time-out": timeout = 0 } = event;
  if (kind && (timeout || alignment === 1)) throw wrong();
  if (timeout && (alignment === 1 || alignment === 3)) throw wrong();
  if (!same || checkpoint < 0) throw wrong();
  if (Object.entries(MOST).some(([key, most]) => event[key] > most)) throw wrong();
  return event;
}
