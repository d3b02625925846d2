// The wire protocol, version 5, written from its specification: the bytes of messages, and a socket
// with its handshake. It uses Node's own modules and @msgpack/msgpack only.

import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { connect } from "node:net";
import { parseArgs } from "node:util";
import { decodeMulti } from "@msgpack/msgpack";

export const VERSION = 5;
const MAGIC = Buffer.from("flinknet");
const VERDICTS = [, "WELCOME", "VERSION", "IDENTITY", "DUPLICATE", "FULL", "REFUSED"];
const LABELS = {
  2: "flinknet accepting challenge",
  3: "flinknet dialling hello",
  4: "flinknet accepting answer",
};
export const WHOLE_CONNECTION = 0xffffffff;

export const DATA = 1, DATA_WITH_CLEAR_END = 8, END_OF_DATA = 9, END_OF_PARTITION = 10;
export const EVENTS_TO_SKIP = [2, 3, 7, 11];

export const BUFFER = 0, ERROR = 1, REQUEST = 2, CANCEL = 4, CLOSE = 5, ADD_CREDIT = 6;
export const RESUME = 7, ACKNOWLEDGE = 8, BACKLOG = 9, BUFFER_SIZE = 10, HEARTBEAT = 12;
export const ADD_EVENT_CREDIT = 13;

export const EVENT_CREDIT = 1000; // initial event credit of each channel

// Number of elements, and their forms behind the two bytes of array and type.
const FORMS = {
  [BUFFER]: [8, "iii1iii"],
  [ERROR]: [4, "i1t"],
  [REQUEST]: [5, "ipii"],
  [CANCEL]: [2, "i"],
  [CLOSE]: [1, ""],
  [ADD_CREDIT]: [3, "ii"],
  [RESUME]: [2, "i"],
  [ACKNOWLEDGE]: [2, "i"],
  [BACKLOG]: [3, "ii"],
  [BUFFER_SIZE]: [3, "ii"],
  [HEARTBEAT]: [1, ""],
  [ADD_EVENT_CREDIT]: [3, "ii"],
};

/** The other side broke the specification. */
export class PeerError extends Error {}

/** The stream ended. */
export class LostError extends Error {}

/** The handshake ended with a verdict other than WELCOME. */
export class RefusedError extends Error {
  constructor(verdict, reason = "") {
    super(reason);
    this.verdict = VERDICTS[verdict] ?? String(verdict);
  }
}

/** Return the result that a program prints for an error. */
export function told(error) {
  if (error instanceof RefusedError) return { verdict: error.verdict, reason: error.message };
  if (error instanceof LostError) return { lost: error.message };
  if (error instanceof PeerError || error instanceof RangeError) {
    return { violation: error.message };
  }
  throw error;
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, number) => {
  for (let bit = 0; bit < 8; bit++) number = (number >>> 1) ^ (number & 1 ? 0x82f63b78 : 0);
  return number;
});

/** Return the CRC32C (Castagnoli) of data. */
export function crc32c(data) {
  let crc = 0xffffffff;
  for (const byte of data) crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ byte) & 0xff];
  return (crc ^ 0xffffffff) >>> 0;
}

/** Return the 16 bytes that name a partition in a request. */
export function partitionId(name) {
  return createHash("sha256").update(name).digest().subarray(0, 16);
}

function uint32(marker, number) {
  const bytes = Buffer.alloc(5);
  bytes[0] = marker;
  bytes.writeUInt32BE(number, 1);
  return bytes;
}

function text8(text) {
  const raw = Buffer.from(text);
  return Buffer.concat([Buffer.from([0xd9, raw.length]), raw]);
}

function encodeIdentity(identity) {
  return Buffer.concat([
    uint32(0xce, identity.attempt),
    uint32(0xce, identity.segmentBytes),
    Buffer.from([0, identity.checksums]),
    text8(identity.workerId),
    text8(identity.address),
    text8(identity.job),
  ]);
}

function decodeIdentity(elements) {
  const [attempt, segmentBytes, flowControl, checksums, workerId, address, job] = elements;
  return { attempt, segmentBytes, flowControl, checksums, workerId, address, job };
}

/** Return the bytes of a message. */
export function encode(type, fields, body = Buffer.alloc(0)) {
  const [arity, kinds] = FORMS[type];
  const parts = [Buffer.from([0x90 | arity, type])];
  [...kinds].forEach((kind, index) => {
    const field = fields[index];
    if (kind === "i") parts.push(uint32(0xce, field));
    else if (kind === "1") parts.push(Buffer.from([field]));
    else if (kind === "p") parts.push(Buffer.from([0xc4, 0x10]), field);
    else {
      const raw = Buffer.from(field);
      parts.push(Buffer.from([0xda, raw.length >> 8, raw.length & 0xff]), raw);
    }
  });
  if (type === BUFFER) parts.push(uint32(0xc6, body.length), body);
  return Buffer.concat(parts);
}

/** Put the twelve bytes of the header before a message of the handshake. */
function framed(body, version = VERSION) {
  const numbers = Buffer.alloc(4);
  numbers.writeUInt16BE(version);
  numbers.writeUInt16BE(body.length, 2);
  return Buffer.concat([MAGIC, numbers, body]);
}

function proof(type, secret, said) {
  return createHmac("sha256", secret).update(LABELS[type]).update(said).digest();
}

/** Return a message of the handshake that ends with a proof of all bytes so far. */
function proved(type, secret, said, ...body) {
  const ending = [Buffer.from([0xc4, 0x20]), Buffer.alloc(32)];
  const message = framed(Buffer.concat([...body, ...ending])).subarray(0, -32);
  return Buffer.concat([message, proof(type, secret, Buffer.concat([said, message]))]);
}

function checkProof(type, secret, said) {
  if (!timingSafeEqual(proof(type, secret, said.subarray(0, -32)), said.subarray(-32))) {
    throw new PeerError("the peer does not know the secret");
  }
}

/** A socket with its handshake and messages. */
export class Wire {
  #socket;
  #chunks = [];
  #buffered = 0;
  #raw = null; // pieces of the current message, for its checksum
  #ended = false;
  #failure = "";
  #wake = () => {};
  #heartbeat;
  #idle = true;
  checksums = false;

  constructor(socket, heartbeatMs) {
    this.#socket = socket;
    socket.setNoDelay();
    socket.on("data", (chunk) => {
      this.#chunks.push(chunk);
      this.#buffered += chunk.length;
      this.#wake();
    });
    socket.on("error", (error) => (this.#failure = error.message));
    for (const name of ["end", "close"]) {
      socket.on(name, () => {
        this.#ended = true;
        this.#wake();
      });
    }
    // A pause between two messages is at most twice this interval.
    this.#heartbeat = () => {
      if (this.#idle && !this.#ended) this.send(HEARTBEAT, []);
      this.#idle = true;
    };
    this.heartbeatMs = heartbeatMs;
  }

  /** Perform the handshake as the dialling side; RefusedError unless it is welcome. */
  async dial(mine, secret, version = VERSION) {
    let said = framed(Buffer.concat([Buffer.from([0x92, 1, 0xc4, 16]), randomBytes(16)]), version);
    this.#socket.write(said);
    said = Buffer.concat([said, await this.#hear(2)]);
    checkProof(2, secret, said);
    const hello = proved(3, secret, said, Buffer.from([0x99, 3]), encodeIdentity(mine));
    this.#socket.write(hello);
    const answer = await this.#hear(4);
    checkProof(4, secret, Buffer.concat([said, hello, answer]));
    const elements = [...decodeMulti(answer.subarray(15, -34))];
    if (answer[14] !== 1) throw new RefusedError(answer[14], elements[7]);
    this.#agree(mine, decodeIdentity(elements));
  }

  /** Perform the handshake as the accepting side. */
  async accept(mine, secret) {
    const opening = await this.#hear(1);
    const nonce = Buffer.concat([Buffer.from([0x93, 2, 0xc4, 16]), randomBytes(16)]);
    const challenge = proved(2, secret, opening, nonce);
    this.#socket.write(challenge);
    const hello = await this.#hear(3);
    const said = Buffer.concat([opening, challenge, hello]);
    try {
      checkProof(3, secret, said);
    } catch (error) {
      this.#socket.write(framed(Buffer.from([0x92, 5, 6])));
      throw error;
    }
    const answer = [Buffer.from([0x9b, 4, 1]), encodeIdentity(mine), text8("")];
    this.#socket.write(proved(4, secret, said, ...answer));
    this.#agree(mine, decodeIdentity([...decodeMulti(hello.subarray(14, -34))]));
  }

  #agree(mine, theirs) {
    for (const field of ["job", "attempt", "segmentBytes", "flowControl"]) {
      if (mine[field] !== theirs[field]) throw new PeerError(`the peer has another ${field}`);
    }
    if (mine.workerId === theirs.workerId) throw new PeerError("both have one name");
    if (theirs.address !== "") {
      const [, port] = /^[^\s\p{C}]+:([0-9]+)$/u.exec(theirs.address) ?? [];
      if (!(Number(port) >= 1 && Number(port) <= 65535)) throw new PeerError("no address");
      if (theirs.address === mine.address) throw new PeerError("both have one address");
    }
    this.checksums = Boolean(mine.checksums || theirs.checksums);
    this.#heartbeat = setInterval(this.#heartbeat, this.heartbeatMs);
  }

  async #hear(expected) {
    const head = await this.#take(12);
    if (!head.subarray(0, 8).equals(MAGIC)) throw new PeerError("that is no flinknet");
    const size = head.readUInt16BE(10);
    if (size < 3 || size > 512) throw new PeerError(`${size} bytes in the handshake`);
    const body = await this.#take(size);
    if (body[0] === 0x92 && body[1] === 5) throw new RefusedError(body[2]);
    if (head.readUInt16BE(8) !== VERSION) throw new PeerError("another version");
    if (body[1] !== expected) throw new PeerError(`message ${body[1]} in place of ${expected}`);
    return Buffer.concat([head, body]);
  }

  /** Send a message, with its checksum if the connection has checksums. */
  send(type, fields, body) {
    const message = encode(type, fields, body);
    this.#idle = false;
    this.#socket.write(message);
    if (this.checksums) this.#socket.write(uint32(0xce, crc32c(message)));
  }

  /** Return the next message, as its type, fields and body; LostError at the end of the stream. */
  async receive() {
    this.#raw = [];
    const [array, type] = await this.#take(2);
    if (array !== (0x90 | FORMS[type]?.[0])) throw new PeerError(`message ${array} ${type}`);
    const fields = [];
    for (const kind of FORMS[type][1]) fields.push(await this.#field(kind));
    const body = type === BUFFER ? await this.#take(await this.#number(0xc6, 4)) : null;
    if (this.checksums) {
      const crc = crc32c(Buffer.concat(this.#raw));
      if ((await this.#number(0xce, 4)) !== crc) throw new PeerError("a wrong checksum");
    }
    return { type, fields, body };
  }

  async #field(kind) {
    if (kind === "i") return this.#number(0xce, 4);
    if (kind === "1") return (await this.#take(1))[0];
    if (kind === "p") {
      if ((await this.#take(2)).readUInt16BE() !== 0xc410) throw new PeerError("no partition");
      return this.#take(16);
    }
    return (await this.#take(await this.#number(0xda, 2))).toString();
  }

  async #number(marker, size) {
    const bytes = await this.#take(1 + size);
    if (bytes[0] !== marker) throw new PeerError("a field of the wrong form");
    return bytes.readUIntBE(1, size);
  }

  async #take(size) {
    while (this.#buffered < size) {
      if (this.#ended) throw new LostError(this.#failure || "the stream ended");
      await new Promise((resolve) => (this.#wake = resolve));
    }
    if (size === 0) return Buffer.alloc(0);
    let all = this.#chunks[0];
    if (all.length < size) all = Buffer.concat(this.#chunks);
    else this.#chunks.shift();
    if (all.length > size && all.length === this.#buffered) this.#chunks = [all.subarray(size)];
    else if (all.length === this.#buffered) this.#chunks = [];
    else if (all.length > size) this.#chunks.unshift(all.subarray(size));
    this.#buffered -= size;
    const taken = all.subarray(0, size);
    this.#raw?.push(taken);
    return taken;
  }

  /** Send CloseRequest, read until the other side has answered or closed, and close. */
  async leave() {
    this.send(CLOSE, []);
    try {
      while ((await this.receive()).type !== CLOSE);
    } catch (error) {
      if (!(error instanceof LostError)) throw error;
    }
    this.close();
  }

  /** Answer a CloseRequest, and close. */
  answerClose() {
    this.send(CLOSE, []);
    this.close();
  }

  close() {
    clearInterval(this.#heartbeat);
    this.#socket.destroySoon();
  }
}

const OPTIONS = {
  secret: { type: "string", default: "" },
  "worker-id": { type: "string", default: "foreign" },
  job: { type: "string", default: "embedded" },
  attempt: { type: "string", default: "0" },
  "segment-bytes": { type: "string", default: "33024" },
  checksums: { type: "string", default: "0" },
  version: { type: "string", default: String(VERSION) },
  "heartbeat-ms": { type: "string", default: "10000" },
};

/** Return the options of the command line, and its other arguments. */
export function commandLine(more) {
  const { values, positionals } = parseArgs({
    options: { ...OPTIONS, ...more },
    allowPositionals: true,
  });
  return { options: values, positionals };
}

/** Return the identity from the command line. */
export function identity(options, address = "") {
  return {
    attempt: Number(options.attempt),
    segmentBytes: Number(options["segment-bytes"]),
    flowControl: 0,
    checksums: Number(options.checksums),
    workerId: options["worker-id"],
    address,
    job: options.job,
  };
}

/** Connect to a worker; RefusedError unless the verdict is WELCOME. */
export async function dial(address, mine, options) {
  const end = address.lastIndexOf(":");
  const place = { host: address.slice(0, end), port: Number(address.slice(end + 1)) };
  const wire = new Wire(connect(place), Number(options["heartbeat-ms"]));
  try {
    await wire.dial(mine, options.secret, Number(options.version));
  } catch (error) {
    wire.close();
    throw error;
  }
  return wire;
}
