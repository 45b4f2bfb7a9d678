// judge.mjs: per-token log-probabilities as a real llama.cpp computes them.
//
//     node judge.mjs MODEL.gguf CASES.json [ADAPTER.gguf[=SCALE] ...]
//
// CASES.json holds a list of {"name", "text"} or {"name", "ids"}. A text is tokenized with special
// tokens parsed, after BOS where the model asks for one. Prints {"model", "adapters", "runs"}; a
// run is {"name", "tokens", "logprobs"}, and logprobs[i] is of tokens[i + 1] after the tokens
// before it. CPU only, two threads, KV cache F32, no flash attention, so that nothing but the
// model's own arithmetic is between two programs that compute the same.
import {readFileSync} from "node:fs";
import {pathToFileURL} from "node:url";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const wholeDistribution = {
    generateNext: {probabilities: true, options: {temperature: 1, topK: 0, topP: 1, minP: 0}}
};

async function judgeTokens(context, tokens) {
    const sequence = context.getSequence();
    try {
        const results = await sequence.controlledEvaluate(
            tokens.slice(0, -1).map((token) => [token, wholeDistribution])
        );
        return results.map((result, i) => {
            const probability = result.next.probabilities.get(tokens[i + 1]);
            if (!(probability > 0))
                throw new Error(`llama.cpp gave no probability for token ${i + 1}`);
            return Math.log(probability);
        });
    } finally {
        await sequence.dispose();
    }
}

// adapters: [{filePath, scale}]; cases: [{name, text | ids}]. Resolves to the list of runs.
export async function judge(llama, modelPath, adapters, cases) {
    const model = await llama.loadModel({modelPath, gpuLayers: 0});
    const runs = [];
    try {
        const tokenized = cases.map(({name, text, ids}) => {
            if (ids)
                return {name, tokens: ids};
            const bos = model.tokens.shouldPrependBosToken ? [model.tokens.bos] : [];
            return {name, tokens: [...bos, ...model.tokenize(text, true)]};
        });
        const context = await model.createContext({
            contextSize: Math.max(...tokenized.map(({tokens}) => tokens.length)) + 8,
            batchSize: 512,
            threads: 2,
            flashAttention: false,
            lora: adapters.length > 0 ? {adapters} : undefined,
            experimentalKvCacheKeyType: "F32",
            experimentalKvCacheValueType: "F32"
        });
        for (const {name, tokens} of tokenized) {
            const logprobs = await judgeTokens(context, tokens);
            runs.push({name, tokens: tokens.map(Number), logprobs});
        }
        await context.dispose();
    } finally {
        await model.dispose();
    }
    return runs;
}

export function openLlama() {
    return getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: 2});
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
    const [model, casesPath, ...adapterArgs] = process.argv.slice(2);
    if (!casesPath) {
        console.error("usage: node judge.mjs MODEL.gguf CASES.json [ADAPTER.gguf[=SCALE] ...]");
        process.exit(2);
    }
    const adapters = adapterArgs.map((arg) => {
        const [, filePath, scale] = arg.match(/^(.*?)(?:=([-+.\de]+))?$/);
        return {filePath, scale: scale === undefined ? 1 : Number(scale)};
    });
    const llama = await openLlama();
    const runs = await judge(llama, model, adapters, JSON.parse(readFileSync(casesPath, "utf8")));
    console.log(JSON.stringify({model, adapters, runs}));
    await llama.dispose();
}
