// A consumer, with the command line and the output of ../python/consumer.py.

import { createInterface } from "node:readline";
import { toJson, unpack, unpackAll } from "./forms.js";
import * as events from "./events.js";
import * as wire from "./wire.js";

const FLOATING = 4;
const { PeerError } = wire;
const { options, positionals } = wire.commandLine({
  credit: { type: "string", default: "2" },
  "pause-after": { type: "string", default: "0" },
  events: { type: "string", default: "0" },
});
const [address, partition, ...subpartitions] = positionals;
const SEGMENT_BYTES = Number(options["segment-bytes"]);

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** One subpartition, from its request to its end. */
class Channel {
  sequence = 0;
  state = "data";
  events = 0; // processed, and not announced as event credit
  #open = null;

  constructor(number, subpartition, credit) {
    this.number = number;
    this.subpartition = subpartition;
    this.initial = this.free = credit;
  }

  get isInsideRecord() {
    return this.#open !== null;
  }

  /** Return the records that end in a buffer. */
  records(dataType, continued, unfinished, count, body) {
    if (continued + unfinished > body.length) throw new PeerError("a buffer cut outside of itself");
    if (this.isInsideRecord !== continued > 0) throw new PeerError("a record does not go on");
    const found = [];
    if (continued) {
      this.#open.push(body.subarray(0, continued));
      if (continued < body.length || dataType === wire.DATA_WITH_CLEAR_END) {
        found.push(unpack(Buffer.concat(this.#open)));
        this.#open = null;
      }
    }
    const whole = unpackAll(body.subarray(continued, body.length - unfinished));
    if (whole.length !== count) throw new PeerError(`${whole.length} records, not ${count}`);
    if (unfinished) this.#open = [body.subarray(body.length - unfinished)];
    return [...found, ...whole];
  }
}

/** All channels of one connection. */
class Consumer {
  #wire;
  #buffers = 0;
  #channels = [];

  constructor(connection) {
    this.#wire = connection;
  }

  /** Read all channels, and return the result. */
  async run() {
    (subpartitions.length ? subpartitions : ["0"]).forEach((subpartition, number) => {
      const channel = new Channel(number, Number(subpartition), Number(options.credit));
      this.#channels.push(channel);
      const id = wire.partitionId(partition);
      this.#wire.send(wire.REQUEST, [number, id, channel.subpartition, channel.initial]);
    });
    let end = "complete";
    while (this.#channels.some((channel) => channel.state !== "end of partition")) {
      const { type, fields, body } = await this.#wire.receive();
      if (type === wire.BUFFER) {
        await this.#onBuffer(fields, body);
      } else if (type === wire.BACKLOG) {
        const channel = this.#channels[fields[0]];
        if (channel.initial || !fields[1]) throw new PeerError("a backlog that nobody needs");
        this.#give(channel, fields[1]);
      } else if (type === wire.ERROR) {
        end = { code: fields[1], text: fields[2] };
        if (fields[0] === wire.WHOLE_CONNECTION) return end;
        break;
      } else if (type === wire.CLOSE) {
        this.#wire.answerClose();
        throw new wire.LostError("the producer has left");
      } else if (type !== wire.HEARTBEAT) {
        throw new PeerError(`a producer does not send message ${type}`);
      }
    }
    for (const channel of this.#channels) this.#wire.send(wire.CANCEL, [channel.number]);
    await this.#wire.leave();
    return end;
  }

  async #onBuffer([number, sequence, backlog, dataType, ...cuts], body) {
    const channel = this.#channels[number];
    if (sequence !== channel.sequence) {
      throw new PeerError(`buffer ${sequence} in place of ${channel.sequence}`);
    }
    channel.sequence = (channel.sequence + 1) % 2 ** 32;
    if (dataType === wire.DATA || dataType === wire.DATA_WITH_CLEAR_END) {
      if (channel.state !== "data" || body.length > SEGMENT_BYTES || !channel.free) {
        throw new PeerError(`data of ${body.length} bytes in the state ${channel.state}`);
      }
      channel.free -= 1;
      await this.#pause();
      for (const record of channel.records(dataType, ...cuts, body)) {
        say({ channel: channel.subpartition, record: toJson(record) });
      }
      this.#give(channel, backlog);
      return;
    }
    if (body.length > 1024 || cuts.some((cut) => cut > 0)) {
      throw new PeerError("an event of the wrong form");
    } else if (dataType === wire.END_OF_DATA && channel.state === "data") {
      if (!["9100", "9101"].includes(body.toString("hex")) || channel.isInsideRecord) {
        throw new PeerError("a wrong end of the data");
      }
      this.#wire.send(wire.ACKNOWLEDGE, [number]);
      channel.state = "acknowledged";
    } else if (dataType === wire.END_OF_PARTITION && channel.state === "acknowledged") {
      channel.state = "end of partition";
    } else if (Number(options.events) && channel.state !== "end of partition") {
      this.#onEvent(channel, backlog, dataType, body);
    } else if (!wire.EVENTS_TO_SKIP.includes(dataType) || channel.state === "end of partition") {
      throw new PeerError(`event ${dataType} in the state ${channel.state}`);
    }
    channel.events += 1;
    if (2 * channel.events < wire.EVENT_CREDIT) return;
    this.#wire.send(wire.ADD_EVENT_CREDIT, [number, channel.events]);
    channel.events = 0;
  }

  #onEvent(channel, backlog, dataType, body) {
    if (channel.isInsideRecord && dataType !== 3) throw new PeerError("an event inside a record");
    const said = events.decode(dataType, body);
    if (said) say({ channel: channel.subpartition, record: said });
    if (!events.BLOCKING.includes(dataType)) return this.#give(channel, backlog);
    if (channel.initial === 0) channel.free = 0;
    this.#wire.send(wire.RESUME, [channel.number]);
  }

  async #pause() {
    this.#buffers += 1;
    if (this.#buffers !== Number(options["pause-after"])) return;
    say({ paused: this.#buffers });
    const lines = createInterface({ input: process.stdin });
    await new Promise((resolve) => lines.once("line", resolve));
    lines.close();
  }

  /** Announce the channel's own buffers, and floating ones for the backlog. */
  #give(channel, backlog) {
    const wanted = channel.initial + Math.min(backlog, FLOATING);
    if (wanted <= channel.free) return;
    this.#wire.send(wire.ADD_CREDIT, [channel.number, wanted - channel.free]);
    channel.free = wanted;
  }
}

let end;
let connection = null;
try {
  connection = await wire.dial(address, wire.identity(options), options);
  end = await new Consumer(connection).run();
} catch (error) {
  end = wire.told(error);
}
connection?.close();
say({ end });
process.exitCode = end === "complete" ? 0 : 1;
