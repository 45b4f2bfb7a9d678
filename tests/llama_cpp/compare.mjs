// compare.mjs: Loam and a real llama.cpp give the same log-probabilities.
//
//     node compare.mjs [LOAM]        LOAM: the program, build/release/loam unless named
//
// For each model, the base alone, the base with an adapter that Loam trains here for a few steps,
// and the base with an adapter that another program made: token ids are equal, and so is every
// log-probability. llama.cpp reads two files: the model itself, and a copy with the same weights as
// F32 (decode.mjs), for it rounds activations before a product with any other type and Loam does
// not. The bar of the copies is therefore the tight one. The other is as wide as that rounding.
// Models outside the repository are looked for in $LOAM_ASSETS/models, else beside the checkout;
// where absent they are counted as skipped. Writes "passed failed skipped" to $COUNTS.
import {execFileSync} from "node:child_process";
import {existsSync, mkdirSync, rmSync, writeFileSync} from "node:fs";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {writeDecoded} from "./decode.mjs";
import {judge, openLlama} from "./judge.mjs";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const loam = path.resolve(process.argv[2] ?? path.join(root, "build/release/loam"));
const assets = path.join(process.env.LOAM_ASSETS ?? path.join(root, "../shared/assets"), "models");
const work = path.join(root, "build/judge");

// Largest difference of a log-probability, and of the mean over all tokens. The rows of the wide256
// models are one block of 256, mostly zero padding, with one scale for all activations in it: there
// the rounding alone moves single tokens by up to 0.8, and only the mean says something.
const exact = {token: 0.001, mean: 0.001};
const half = {token: 0.005, mean: 0.005};
const stories = {token: 0.1, mean: 0.01};
const wide = {token: Infinity, mean: 0.01};
const chat = {token: 0.2, mean: 0.01};
const foreign = path.join(assets, "stories260K-random-lora-r4-a8.gguf");

const models = [
    {file: path.join(root, "models/loam-29m-Q4_K_M.gguf"), bar: chat, texts: "chat"},
    {file: path.join(assets, "loam-29m-Q8_0.gguf"), bar: chat, texts: "chat"},
    {file: path.join(assets, "stories260K-F32.gguf"), bar: null, texts: "story", foreign},
    {file: path.join(assets, "stories260K-F16.gguf"), bar: half, texts: "story", foreign},
    {file: path.join(assets, "stories260K-Q8_0.gguf"), bar: stories, texts: "story", foreign},
    {file: path.join(assets, "stories260K-Q4_0.gguf"), bar: stories, texts: "story", foreign},
    {file: path.join(assets, "stories260K-wide256-Q4_K_M.gguf"), bar: wide, texts: "story"},
    {file: path.join(assets, "stories260K-wide256-Q5_K_M.gguf"), bar: wide, texts: "story"},
    {file: path.join(assets, "stories260K-wide256-Q2_K.gguf"), bar: wide, texts: "story"}
];

const texts = {
    chat: [
        {name: "prose", text: "The old gardener opened the gate, looked at the wet soil and " +
            "smiled. There had been rain in the night, and the beans that he had planted in the " +
            "spring were already as high as the wall."},
        {name: "turns", text: "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n" +
            "<|im_start|>assistant\nThe capital of France is Paris.<|im_end|>\n"},
        {name: "mixed", text: "Größe: 3,50 m — naïve “quotes”, x² + 1 = 17; 世界 🙂\n" +
            "\tdef f(n): return n * 2\n"}
    ],
    // In the manner of the model's own: where a token is very unlikely, rounding counts for more.
    story: [
        {name: "park", text: "Once upon a time, there was a little boy named Tim. He loved to " +
            "play with his toys. One day, his mom said, \"Let's go to the park!\" Tim was very " +
            "happy."},
        {name: "bird", text: "Once upon a time, there was a big dog. The dog liked to run and " +
            "play in the park. One day, the dog saw a little bird. The bird was sad."}
    ]
};

function runLoam(...args) {
    return execFileSync(loam, args, {encoding: "utf8", stdio: ["ignore", "pipe", "pipe"]});
}

function loamLogprobs(model, adapter, text) {
    const file = path.join(work, "text.txt");
    writeFileSync(file, text);
    const lora = adapter ? ["--lora", adapter] : [];
    return JSON.parse(runLoam("eval", model, ...lora, "--logprobs", "--text-file", file, "--json"));
}

// A few steps at a high rate: far enough from the base that a wrong adapter cannot pass for it.
function trainAdapter({file, texts: kind}) {
    const data = path.join(work, `${kind}.txt`);
    const adapter = path.join(work, `${path.basename(file, ".gguf")}-lora.gguf`);
    writeFileSync(data, texts[kind].map(({text}) => text).join("\n\n").repeat(4));
    runLoam("train", file, "--data", data, "-o", adapter, "--iters", "4", "--batch-size", "2",
        "--max-seq-length", "64", "--rank", "4", "--lora-alpha", "8", "--learning-rate", "1e-2",
        "--seed", "1");
    return adapter;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// Returns what is wrong with Loam's numbers, or null; prints the differences.
function compare(runs, ours, bar) {
    for (const [i, run] of runs.entries()) {
        if (JSON.stringify(run.tokens) !== JSON.stringify(ours[i].tokens))
            return `text '${run.name}': llama.cpp reads tokens ${run.tokens}, Loam ` +
                `${ours[i].tokens}`;
        if (ours[i].logprobs.length !== run.logprobs.length)
            return `text '${run.name}': ${ours[i].logprobs.length} log-probabilities for ` +
                `${run.tokens.length} tokens`;
    }
    const theirs = runs.flatMap(({logprobs}) => logprobs);
    const mine = ours.flatMap(({logprobs}) => logprobs);
    const largest = Math.max(...theirs.map((value, i) => Math.abs(value - mine[i])));
    const nll = [-mean(theirs), -mean(mine)];
    console.log(`  ${theirs.length} tokens, largest difference ${largest.toFixed(5)} ` +
        `(bar ${bar.token}), NLL ${nll[0].toFixed(5)} and ${nll[1].toFixed(5)} (bar ${bar.mean})`);
    if (!(largest <= bar.token))
        return `a log-probability differs by ${largest}, more than ${bar.token}`;
    if (!(Math.abs(nll[0] - nll[1]) <= bar.mean))
        return `the mean NLL differs by ${Math.abs(nll[0] - nll[1])}, more than ${bar.mean}`;
    return null;
}

// An adapter that changes nothing would pass unseen: llama.cpp with it must differ from without.
function unchanged(base, runs) {
    const shift = Math.max(...runs.flatMap(({logprobs}, i) =>
        logprobs.map((value, t) => Math.abs(value - base[i].logprobs[t]))));
    return shift < 0.05 ? `the adapter moves no log-probability by more than ${shift}` : null;
}

async function judgeModel(llama, model, counts) {
    const name = path.basename(model.file, ".gguf");
    const cases = texts[model.texts];
    const decoded = path.join(work, "decoded.gguf");
    const base = {};
    const check = async (label, file, bar, adapterOf) => {
        let problem;
        console.log(`${name}, ${label}, ${file === decoded ? "weights as F32" : "as it is"}`);
        try {
            const adapter = adapterOf();
            const lora = adapter ? [{filePath: adapter, scale: 1}] : [];
            const runs = await judge(llama, file, lora, cases);
            base[file] ??= runs;
            problem = compare(runs, cases.map(({text}) => loamLogprobs(model.file, adapter, text)),
                bar) ?? (adapter ? unchanged(base[file], runs) : null);
        } catch (error) {
            problem = `${error.message}\n${error.stderr ?? ""}`;
        }
        console.log(problem ? `  FAIL: ${problem}` : "  PASS");
        counts[problem ? "failed" : "passed"]++;
    };
    writeDecoded(model.file, decoded);
    let trained;
    for (const [file, bar] of [[decoded, exact], ...model.bar ? [[model.file, model.bar]] : []]) {
        await check("base", file, bar, () => null);
        await check("trained adapter", file, bar, () => trained ??= trainAdapter(model));
    }
    // Random factors make a model of noise, which rounding disturbs without bound: F32 alone.
    if (model.foreign)
        await check("foreign adapter", decoded, exact, () => model.foreign);
    rmSync(decoded);
}

mkdirSync(work, {recursive: true});
const llama = await openLlama();
const counts = {passed: 0, failed: 0, skipped: 0};
for (const model of models) {
    if (existsSync(model.file)) {
        await judgeModel(llama, model, counts);
    } else {
        console.log(`${path.basename(model.file)}: not in ${path.dirname(model.file)}, SKIP`);
        counts.skipped += (model.bar ? 4 : 2) + (model.foreign ? 1 : 0);
    }
}
await llama.dispose();
console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
if (process.env.COUNTS)
    writeFileSync(process.env.COUNTS, `${counts.passed} ${counts.failed} ${counts.skipped}\n`);
process.exit(counts.failed > 0 ? 1 : 0);
