// What Netron's reader finds in files, as JSON, without its window.
//
//     node read_with_netron.mjs FOLDER FILE ...
//
// FOLDER holds Netron's modules, and says in a package.json that they are modules.

import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, ...files] = process.argv.slice(2);
const imported = (name) => import(pathToFileURL(path.resolve(folder, `${name}.js`)).href);
const view = await imported('view');
const base = await imported('base');
const host = {
    environment: () => null,
    require: imported,
    asset: async (file) => fs.readFileSync(path.join(folder, file), 'utf-8'),
    request: async (file) => { throw new Error(`Netron asks for ${file}`); },
    event() {},
    exception() {}
};

const argument = (each, graphs) => {
    if (each.type === 'function') {
        graphs.push(each.value);
        return [each.name, `graph ${each.value.name}`];
    }
    const value = Array.isArray(each.value) ? each.value : [each.value];
    return [each.name, value.map((item) => item && item.name ? `${item.name}: ${item.type || ''}` : String(item))];
};

const graphTree = (graph) => {
    const graphs = [];
    const nodes = graph.nodes.map((node) => ({
        type: node.type.identifier || node.type.name,
        inputs: node.inputs.map((each) => argument(each, graphs)),
        outputs: node.outputs.map((each) => argument(each, graphs)),
        metadata: Object.fromEntries((node.metadata || []).map((each) => [each.name, each.value]))
    }));
    return { name: graph.name, nodes, graphs: graphs.map(graphTree) };
};

const read = async (file) => {
    const errors = [];
    const context = {
        ...host,
        identifier: path.basename(file),
        stream: new base.BinaryStream(new Uint8Array(fs.readFileSync(file))),
        entries: new Map(),
        error: (error) => errors.push(String(error.message || error))
    };
    const service = new view.ModelFactoryService(host);
    service.import();
    try {
        const model = await service.open(context);
        return { format: model.format, graphs: model.modules.map(graphTree), errors };
    } catch (error) {
        return { failed: String(error.message || error) };
    }
};

const found = [];
for (const file of files) {
    found.push(await read(file));
}
console.log(JSON.stringify(found));
