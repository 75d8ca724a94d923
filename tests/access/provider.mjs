// A real OpenID Connect issuer for tests (npm oidc-provider): node provider.mjs PORT AUDIENCE, from the folder it is
// installed in. It says "ready" once it listens. "lifetime SECONDS" on standard input is for the access tokens of people
// that follow; any other line gives it other keys, and "explorer URL" lets the registry at that URL have people log in.
import { generateKeyPair, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const require = createRequire(process.cwd() + "/");
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);
const [port, audience] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const groups = { ann: ["team"], eve: [] };
let explorer = "http://127.0.0.1";
let lifetime = 3600;

async function signingKey() {
  const { privateKey } = await promisify(generateKeyPair)("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid: randomBytes(4).toString("hex"), use: "sig", alg: "RS256" };
}

async function provider() {
  const made = new Provider(issuer, {
    clients: [
      {
        client_id: "cli",
        token_endpoint_auth_method: "none",
        application_type: "native",
        grant_types: ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token", "authorization_code"],
        redirect_uris: ["http://127.0.0.1/callback"],
      },
      ...["explorer", "explorer-public"].map((id) => ({
        client_id: id,
        ...(id === "explorer" ? { client_secret: "explorer's + secret" } : { token_endpoint_auth_method: "none" }),
        application_type: "native",
        redirect_uris: [`${explorer}/ui/-/login/callback`],
        post_logout_redirect_uris: [`${explorer}/ui/-/login`],
      })),
      {
        client_id: "machine",
        client_secret: "machine's secret",
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
      },
    ],
    jwks: { keys: [await signingKey()] },
    cookies: { keys: ["for tests"] },
    scopes: ["openid", "offline_access"],
    claims: { openid: ["sub"], profile: ["name", "groups"] },
    ttl: { AccessToken: () => lifetime, ClientCredentials: 600, RefreshToken: 600, DeviceCode: 600, Grant: 600, Session: 600, Interaction: 600, IdToken: 600 },
    issueRefreshToken: async () => true,
    findAccount: async (_, id) => ({ accountId: id, claims: async () => ({ sub: id, name: `${id} of the team`, groups: groups[id] ?? [] }) }),
    extraTokenClaims: async (_, token) => ({ groups: groups[token.accountId] ?? ["machines"] }),
    features: {
      devInteractions: { enabled: true },
      deviceFlow: { enabled: true },
      clientCredentials: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: async (context) => (context.oidc.client.clientId.startsWith("explorer") ? undefined : audience),
        useGrantedResource: async () => true,
        getResourceServerInfo: async (_, resource) => ({ audience: resource, scope: "openid offline_access", accessTokenFormat: "jwt", jwt: { sign: { alg: "RS256" } } }),
      },
    },
  });
  return made.callback();
}

let current = await provider();
createServer((request, response) => current(request, response)).listen(Number(port), "127.0.0.1", () => console.log("ready"));
createInterface({ input: process.stdin }).on("line", async (line) => {
  if (line.startsWith("explorer ")) explorer = line.slice("explorer ".length);
  if (line.startsWith("lifetime ")) lifetime = Number(line.slice("lifetime ".length));
  else current = await provider();
  console.log("done");
}).on("close", () => process.exit(0));
