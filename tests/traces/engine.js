// Perfetto's own trace processor, as its web page runs it in a worker, here in Node.
//
//   node engine.js FOLDER
//
// FOLDER holds engine_bundle.js and trace_processor.wasm. Standard input and output carry the
// engine's own messages (TraceProcessorRpcStream).
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const folder = process.argv[2];

/// Reads a file of the folder in place of a web server's.
class XMLHttpRequest {
  open(method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    this.response = fs.readFileSync(this.file);
  }
}

const worker = {
  WorkerGlobalScope: class {},  // by which the bundle knows that it runs in a worker
  XMLHttpRequest,
  location: {href: 'https://localhost/'},
  // Its messages for people must not get among the answers.
  console: {log: console.error, info: console.error, warn: console.error, error: console.error},
};
for (const name of ['TextDecoder', 'TextEncoder', 'URL', 'performance', 'crypto',
                    'setTimeout', 'clearTimeout', 'Uint8Array'])
  worker[name] = globalThis[name];
worker.self = worker;
const bundle = path.join(folder, 'engine_bundle.js');
process.on('uncaughtException', error => {
  console.error(`engine.js: ${error.message}`);  // the bundle is one line of 80 KB in a stack
  process.exit(1);
});
vm.runInNewContext(fs.readFileSync(bundle, 'utf8'), worker, {filename: bundle});

const port = {onmessage: undefined, postMessage: bytes => process.stdout.write(bytes)};
worker.onmessage({data: port});
// The engine sets itself up in promises, which have all been kept by then.
setImmediate(() =>
  process.stdin.on('data', chunk => port.onmessage({data: new Uint8Array(chunk)})));
