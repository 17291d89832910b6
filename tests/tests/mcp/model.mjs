// A stand-in for the API of OpenAI, which the programs of docs/quick-start.md call. It asks for one call of the tool
// `shell`, and answers with the result. `node model.mjs COMMAND` prints the URL of the API, and ends with its standard
// input.

import { createServer } from "node:http";

const [command] = process.argv.slice(2);
const call = { name: "shell", arguments: JSON.stringify({ command }) };

/** The Responses API. */
function respond({ input, tools }) {
  const result = input.find((item) => item.type === "function_call_output");
  if (!tools.some((tool) => tool.name === call.name)) throw new Error("no tool `shell`");
  const output = result
    ? { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [text(result.output)] }
    : { type: "function_call", id: "fc_1", call_id: "call_1", status: "completed", ...call };
  const usage = {
    input_tokens: 1,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 1,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 2,
  };
  return { id: "resp_1", object: "response", created_at: 0, status: "completed", model: "stand-in", output: [output], usage };
}

const text = (output) => ({
  type: "output_text",
  annotations: [],
  text: typeof output === "string" ? output : JSON.stringify(output),
});

/** Chat Completions. */
function complete({ messages, tools }) {
  const result = messages.find((message) => message.role === "tool");
  if (!tools.some((tool) => tool.function.name === call.name)) throw new Error("no tool `shell`");
  const message = result
    ? { role: "assistant", content: typeof result.content === "string" ? result.content : JSON.stringify(result.content) }
    : { role: "assistant", content: null, tool_calls: [{ id: "call_1", type: "function", function: call }] };
  const choice = { index: 0, finish_reason: result ? "stop" : "tool_calls", message };
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  return { id: "chat_1", object: "chat.completion", created: 0, model: "stand-in", choices: [choice], usage };
}

const APIS = { "/v1/responses": respond, "/v1/chat/completions": complete };

const server = createServer(async (request, response) => {
  let [status, answer] = [200, {}];
  try {
    answer = APIS[request.url](JSON.parse(Buffer.concat(await request.toArray()).toString()));
  } catch (error) {
    [status, answer] = [400, { error: { message: String(error) } }];
  }
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/v1`));
process.stdin.resume().on("end", () => process.exit());
