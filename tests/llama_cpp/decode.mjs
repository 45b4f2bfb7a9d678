// decode.mjs: a GGUF model's weights as F32, decoded by the definition of each block type.
//
// llama.cpp rounds activations to 8 bits before it multiplies by a quantized weight, which moves
// log-probabilities by a tenth and more. On a copy whose weights are F32 it computes with the same
// weights and without that rounding, and two right programs agree to the fifth digit. The code
// here shares nothing with Loam's decoders. Layouts: ggml-common.h and ggml-quants.c of ggml.
import {openSync, readFileSync, writeSync, closeSync} from "node:fs";

function half(view, at) {
    const bits = view.getUint16(at, true);
    const sign = bits & 0x8000 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent === 0)
        return sign * fraction * 2 ** -24;
    return exponent === 31 ? (fraction ? NaN : sign * Infinity)
        : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// The eight 6-bit scales and minima of Q4_K and Q5_K, from their 12 bytes.
function scaleAndMin(view, at, j) {
    const byte = (i) => view.getUint8(at + i);
    if (j < 4)
        return [byte(j) & 63, byte(j + 4) & 63];
    return [byte(j + 4) & 15 | byte(j - 4) >> 6 << 4, byte(j + 4) >> 4 | byte(j) >> 6 << 4];
}

// Of Q4_K (no high bits) and Q5_K: eight groups of 32, two to each run of 32 bytes.
function decodeWithMin(view, at, out, to, high, low) {
    const d = half(view, at), dmin = half(view, at + 2);
    for (let group = 0; group < 8; group++) {
        const [scale, min] = scaleAndMin(view, at + 4, group);
        for (let i = 0; i < 32; i++) {
            const byte = view.getUint8(low + 32 * (group >> 1) + i);
            const top = high === null ? 0 : (view.getUint8(high + i) >> group & 1) << 4;
            out[to + 32 * group + i] = d * scale * ((group & 1 ? byte >> 4 : byte & 15) | top) -
                dmin * min;
        }
    }
}

function decodeQ2K(view, at, out, to) {
    const d = half(view, at + 80), dmin = half(view, at + 82);
    for (let i = 0; i < 256; i++) {
        const scale = view.getUint8(at + (i >> 4));
        const q = view.getUint8(at + 16 + 32 * (i >> 7) + (i & 31)) >> 2 * (i >> 5 & 3) & 3;
        out[to + i] = d * (scale & 15) * q - dmin * (scale >> 4);
    }
}

function decodeQ3K(view, at, out, to) {
    const byte = (i) => view.getUint8(at + i);
    const d = half(view, at + 108);
    for (let i = 0; i < 256; i++) {
        const group = i >> 4;
        const low = group < 8 ? byte(96 + group) & 15 : byte(96 + group - 8) >> 4;
        const scale = (low | (byte(104 + group % 4) >> 2 * (group >> 2) & 3) << 4) - 32;
        const q = byte(32 + 32 * (i >> 7) + (i & 31)) >> 2 * (i >> 5 & 3) & 3;
        out[to + i] = d * scale * (q - (byte(i & 31) >> (i >> 5) & 1 ? 0 : 4));
    }
}

function decodeQ6K(view, at, out, to) {
    const d = half(view, at + 208);
    for (let i = 0; i < 256; i++) {
        const part = i >> 5 & 3, column = i & 31, side = i >> 7;
        const lowAt = at + 64 * side + 32 * (part & 1) + column;
        const low = view.getUint8(lowAt) >> 4 * (part >> 1) & 15;
        const high = view.getUint8(at + 128 + 32 * side + column) >> 2 * part & 3;
        out[to + i] = d * view.getInt8(at + 192 + (i >> 4)) * ((low | high << 4) - 32);
    }
}

// By GGUF's type number: elements and bytes of a block, and its decoder.
const types = {
    0: [1, 4, (view, at, out, to) => out[to] = view.getFloat32(at, true)],
    1: [1, 2, (view, at, out, to) => out[to] = half(view, at)],
    2: [32, 18, (view, at, out, to) => {
        for (let i = 0; i < 32; i++) {
            const byte = view.getUint8(at + 2 + i % 16);
            out[to + i] = half(view, at) * ((i < 16 ? byte & 15 : byte >> 4) - 8);
        }
    }],
    8: [32, 34, (view, at, out, to) => {
        for (let i = 0; i < 32; i++)
            out[to + i] = half(view, at) * view.getInt8(at + 2 + i);
    }],
    10: [256, 84, decodeQ2K],
    11: [256, 110, decodeQ3K],
    12: [256, 144, (view, at, out, to) => decodeWithMin(view, at, out, to, null, at + 16)],
    13: [256, 176, (view, at, out, to) => decodeWithMin(view, at, out, to, at + 16, at + 48)],
    14: [256, 210, decodeQ6K]
};

// Reads header, metadata (skipped over) and tensor table of a GGUF version 3 file.
function parse(buffer) {
    const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
    let at = 8, alignment = 32;
    const u32 = () => (at += 4, view.getUint32(at - 4, true));
    const u64 = () => (at += 8, Number(view.getBigUint64(at - 8, true)));
    const string = () => {
        const length = u64();
        at += length;
        return buffer.toString("utf8", at - length, at);
    };
    const sizes = [1, 1, 2, 2, 4, 4, 4, 1, null, null, 8, 8, 8];
    const skip = (type) => {
        if (type === 8) {
            string();
        } else if (type === 9) {
            const element = u32(), n = u64();
            for (let i = 0; i < n; i++)
                skip(element);
        } else {
            at += sizes[type];
        }
    };
    const nTensors = u64(), nKeys = u64();
    for (let i = 0; i < nKeys; i++) {
        const key = string(), type = u32();
        if (key === "general.alignment")
            alignment = view.getUint32(at, true);
        skip(type);
    }
    const tableAt = at, tensors = [];
    for (let i = 0; i < nTensors; i++) {
        const name = string(), ne = Array.from({length: u32()}, u64);
        tensors.push({name, ne, type: u32(), offset: u64(), n: ne.reduce((a, b) => a * b, 1)});
    }
    return {view, tensors, tableAt, alignment, dataAt: Math.ceil(at / alignment) * alignment};
}

function tableEntry({name, ne}, offset) {
    const text = Buffer.from(name);
    const entry = Buffer.alloc(8 + text.length + 4 + 8 * ne.length + 4 + 8);
    entry.writeBigUInt64LE(BigInt(text.length), 0);
    let at = 8 + text.copy(entry, 8);
    at = entry.writeUInt32LE(ne.length, at);
    for (const n of ne)
        at = entry.writeBigUInt64LE(BigInt(n), at);
    at = entry.writeUInt32LE(0, at);
    entry.writeBigUInt64LE(BigInt(offset), at);
    return entry;
}

// Writes a copy of a model whose tensors are all F32.
export function writeDecoded(from, to) {
    const buffer = readFileSync(from);
    const {view, tensors, tableAt, alignment, dataAt} = parse(buffer);
    const padded = (bytes) => Math.ceil(bytes / alignment) * alignment;
    const file = openSync(to, "w");
    let written = writeSync(file, buffer, 0, tableAt), offset = 0;
    for (const tensor of tensors) {
        written += writeSync(file, tableEntry(tensor, offset));
        offset += padded(4 * tensor.n);
    }
    writeSync(file, Buffer.alloc(padded(written) - written));
    for (const {name, type, n, offset: at} of tensors) {
        if (!types[type])
            throw new Error(`${from}: tensor '${name}' has type ${type}: no decoder here`);
        const [elements, bytes, decode] = types[type];
        const out = new Float32Array(padded(4 * n) / 4);
        for (let block = 0; block < n / elements; block++)
            decode(view, dataAt + at + block * bytes, out, block * elements);
        writeSync(file, Buffer.from(out.buffer));
    }
    closeSync(file);
}
