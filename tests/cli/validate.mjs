// Is a document what docs/schemas/pare.schema.json says?   node validate.mjs SCHEMA COMMAND DOCUMENT
// The part of JSON Schema that the file uses. Beyond it, an entry that the schema does not list is a fault too, so that the
// file stays complete; and of a document with an error nothing else is required.
import fs from 'fs';

const [, , schemaFile, command, documentFile] = process.argv;
const whole = JSON.parse(fs.readFileSync(schemaFile, 'utf8'));
const faults = [];

const typeOf = (value) => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);
const fits = (value, type) => (type === 'integer' ? Number.isInteger(value) : typeOf(value) === type);

function check(value, schema, where, partial = false) {
  if (schema.$ref) return check(value, schema.$ref.slice(2).split('/').reduce((at, key) => at[key], whole), where);
  const types = [schema.type ?? []].flat();
  if (types.length > 0 && !types.some((type) => fits(value, type))) {
    faults.push(`${where}: is ${JSON.stringify(value)?.slice(0, 60)}, expected ${types.join(' or ')}`);
    return;
  }
  if (schema.enum && !schema.enum.includes(value)) faults.push(`${where}: "${value}" is not among ${schema.enum.join(', ')}`);
  if (typeOf(value) === 'array' && schema.items) value.forEach((item, i) => check(item, schema.items, `${where}[${i}]`));
  if (typeOf(value) !== 'object') return;
  if (!partial) for (const key of schema.required ?? []) if (!(key in value)) faults.push(`${where}: has no ${key}`);
  for (const [key, entry] of Object.entries(value)) {
    const known = schema.properties?.[key] ?? schema.additionalProperties;
    if (known) check(entry, known, `${where}.${key}`);
    else if (schema.properties) faults.push(`${where}.${key}: the schema does not list it`);
  }
}

const schema = whole.$defs[command];
if (!schema) {
  faults.push(`the schema has no ${command}`);
} else {
  const document = JSON.parse(fs.readFileSync(documentFile, 'utf8'));
  check(document, schema, command, 'error' in document);
}
for (const fault of faults.slice(0, 5)) console.log(fault);
process.exit(faults.length > 0 ? 1 : 0);
