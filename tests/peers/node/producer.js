// A producer, with the command line, the input and the output of ../python/producer.py.

import { once } from "node:events";
import { createServer } from "node:net";
import { json } from "node:stream/consumers";
import * as events from "./events.js";
import { packJson } from "./forms.js";
import * as wire from "./wire.js";

const TAKEN = 8, NOT_FOUND = 4;
const { PeerError } = wire;
const { options } = wire.commandLine({
  dial: { type: "string", default: "" },
  "buffer-bytes": { type: "string", default: "0" },
});
const BUFFER_BYTES = Number(options["buffer-bytes"]) || Number(options["segment-bytes"]);

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** The records of one subpartition as a stream of bytes that is cut into buffers. */
class Subpartition {
  taken = false;
  settled = false; // whether the consumer has acknowledged or cancelled
  #bytes;
  #ends = [];
  #next = 0; // the first record that ends behind the position
  #at = 0;
  #events = []; // for each, the number of bytes before it, its data type, and its body

  constructor(records) {
    const packed = [];
    let size = 0;
    for (const record of records) {
      if (record !== null && typeof record === "object" && "event" in record) {
        this.#events.push([size, ...events.encode(record)]);
      } else {
        packed.push(packJson(record));
        size += packed.at(-1).length;
      }
    }
    this.#bytes = Buffer.concat(packed);
    let end = 0;
    for (const record of packed) this.#ends.push((end += record.length));
  }

  /** Return the number of buffers up to the next event that blocks. */
  backlog(bufferBytes) {
    let number = 0, at = this.#at;
    for (const [end, type] of [...this.#events, [this.#bytes.length, 0]]) {
      number += Math.ceil((end - at) / bufferBytes);
      at = end;
      if (events.BLOCKING.includes(type)) break;
    }
    return number;
  }

  /** Return whether an event comes next. */
  isEventNext() {
    return this.#events[0]?.[0] === this.#at;
  }

  /** Return and remove the next event, if an event comes next. */
  event() {
    return this.isEventNext() ? this.#events.shift().slice(1) : null;
  }

  /** Return the next buffer: its data type, continued, unfinished and records, and its body. */
  cut(bufferBytes) {
    const begin = this.#at;
    const until = this.#events[0]?.[0] ?? this.#bytes.length;
    const end = (this.#at = Math.min(begin + bufferBytes, until));
    let whole = begin; // the end of the record that continues in this buffer
    if (begin > (this.#ends[this.#next - 1] ?? 0)) {
      whole = Math.min(this.#ends[this.#next], end);
      if (this.#ends[this.#next] <= end) this.#next += 1;
    }
    const first = this.#next;
    let last = whole; // the end of the last record that ends in this buffer
    while (this.#next < this.#ends.length && this.#ends[this.#next] <= end) {
      last = this.#ends[this.#next++];
    }
    const isClear = this.#ends[this.#next - 1] === end;
    const type = isClear ? wire.DATA_WITH_CLEAR_END : wire.DATA;
    const cuts = [whole - begin, end - last, this.#next - first];
    return [type, cuts, this.#bytes.subarray(begin, end)];
  }
}

/** All channels of one connection. */
class Producer {
  #wire;
  #partitions = new Map();
  #errors = new Map();
  #channels = new Map();
  #waiting = 0; // subpartitions not read to their end yet

  constructor(connection, { partitions, errors = {} }) {
    this.#wire = connection;
    const key = (name) => wire.partitionId(name).toString("hex");
    for (const [name, subpartitions] of Object.entries(partitions)) {
      this.#partitions.set(key(name), subpartitions.map((records) => new Subpartition(records)));
      this.#waiting += subpartitions.length;
    }
    for (const [name, error] of Object.entries(errors)) this.#errors.set(key(name), error);
  }

  /** Serve until the other side closes; return the result. */
  async run() {
    for (;;) {
      let message;
      try {
        message = await this.#wire.receive();
        if (message.type === wire.CLOSE) {
          this.#wire.answerClose();
          throw new wire.LostError("the consumer has left");
        }
      } catch (error) {
        const isComplete = !this.#waiting && !this.#channels.size;
        if (error instanceof wire.LostError && isComplete) return "complete";
        throw error;
      }
      this.#handle(message);
      while ([...this.#channels].map((entry) => this.#sendNext(...entry)).includes(true));
    }
  }

  #handle({ type, fields }) {
    if (type === wire.REQUEST) return this.#onRequest(...fields);
    if (type === wire.ERROR) throw new PeerError(`error ${fields[1]}: ${fields[2]}`);
    if (type === wire.HEARTBEAT) return;
    const channel = this.#channels.get(fields[0]);
    if (!channel) {
      // The consumer also cancels a request that was answered with an error.
      if (type !== wire.CANCEL) throw new PeerError(`message ${type} for channel ${fields[0]}`);
    } else if (type === wire.ADD_CREDIT) {
      channel.credit += fields[1];
    } else if (type === wire.ADD_EVENT_CREDIT) {
      channel.eventCredit += fields[1];
    } else if (type === wire.BUFFER_SIZE) {
      channel.bufferBytes = Math.min(fields[1], BUFFER_BYTES);
    } else if (type === wire.ACKNOWLEDGE) {
      if (channel.state !== "end of data") throw new PeerError("an acknowledgement of nothing");
      channel.state = "acknowledged";
      channel.subpartition.settled = true;
    } else if (type === wire.RESUME) {
      if (!channel.isBlocked) throw new PeerError("a channel was resumed that is not blocked");
      channel.isBlocked = false;
      if (channel.initial === 0) [channel.credit, channel.isAnnounced] = [0, false];
    } else if (type === wire.CANCEL) {
      this.#channels.delete(fields[0]);
      channel.subpartition.settled = true;
    } else {
      throw new PeerError(`a consumer does not send message ${type}`);
    }
  }

  #onRequest(number, partition, index, credit) {
    const key = partition.toString("hex");
    const refuse = (code, text) => this.#wire.send(wire.ERROR, [number, code, text]);
    if (this.#errors.has(key)) return refuse(...this.#errors.get(key));
    const siblings = this.#partitions.get(key) ?? [];
    const subpartition = siblings[index];
    if (!subpartition) return refuse(NOT_FOUND, "there is no such subpartition");
    if (subpartition.taken) return refuse(TAKEN, "the subpartition is taken");
    subpartition.taken = true;
    this.#channels.set(number, {
      siblings,
      subpartition,
      credit,
      eventCredit: wire.EVENT_CREDIT,
      initial: credit,
      isBlocked: false,
      isAnnounced: credit > 0,
      sequence: 0,
      state: "data",
      bufferBytes: BUFFER_BYTES,
    });
  }

  /** Send the next buffer or event of a channel, if it may be sent. */
  #sendNext(number, channel) {
    const { subpartition, siblings } = channel;
    if (channel.isBlocked) return false;
    if (channel.state === "data" && subpartition.isEventNext() && !channel.eventCredit) return false;
    let type, cuts = [0, 0, 0], body;
    const event = channel.state === "data" ? subpartition.event() : null;
    if (event) {
      [type, body] = event;
      channel.isBlocked = events.BLOCKING.includes(type);
    } else if (channel.state === "data" && subpartition.backlog(channel.bufferBytes)) {
      if (!channel.credit) {
        const backlog = subpartition.backlog(channel.bufferBytes);
        if (!channel.isAnnounced) this.#wire.send(wire.BACKLOG, [number, backlog]);
        channel.isAnnounced = true;
        return false;
      }
      channel.credit -= 1;
      [type, cuts, body] = subpartition.cut(channel.bufferBytes);
    } else if (!channel.eventCredit) {
      return false;
    } else if (channel.state === "data") {
      channel.state = "end of data";
      [type, body] = [wire.END_OF_DATA, Buffer.from([0x91, 1])];
    } else if (channel.state === "acknowledged" && siblings.every((other) => other.settled)) {
      channel.state = "end of partition";
      this.#waiting -= 1;
      [type, body] = [wire.END_OF_PARTITION, Buffer.from([0x90])];
    } else {
      return false;
    }
    if (type !== wire.DATA && type !== wire.DATA_WITH_CLEAR_END) channel.eventCredit -= 1;
    const backlog = channel.isBlocked ? 0 : subpartition.backlog(channel.bufferBytes);
    this.#wire.send(wire.BUFFER, [number, channel.sequence, backlog, type, ...cuts], body);
    channel.sequence = (channel.sequence + 1) % 2 ** 32;
    return true;
  }
}

const work = await json(process.stdin);
const listener = createServer().listen(0, "127.0.0.1");
await once(listener, "listening");
const address = `127.0.0.1:${listener.address().port}`;
const mine = wire.identity(options, address);
let end;
let connection = null;
try {
  if (options.dial) {
    connection = await wire.dial(options.dial, mine, options);
    say({ address });
  } else {
    say({ address });
    const [socket] = await once(listener, "connection");
    connection = new wire.Wire(socket, Number(options["heartbeat-ms"]));
    await connection.accept(mine, options.secret);
  }
  end = await new Producer(connection, work).run();
} catch (error) {
  end = wire.told(error);
}
connection?.close();
listener.close();
say({ end });
process.exitCode = end === "complete" ? 0 : 1;
