// A certified authorization server (the npm package `oidc-provider`, whose file is the argument), and an MCP
// server that asks it about each token. Whoever comes is logged in and consents. Prints where both are.
import http from 'node:http';
import { pathToFileURL } from 'node:url';

const { default: Provider } = await import(pathToFileURL(process.argv[2]));
const listening = (server) =>
  new Promise((done) =>
    server.listen(0, '127.0.0.1', () => done(`http://127.0.0.1:${server.address().port}`)));

const authority = http.createServer();
const issuer = await listening(authority);
const mcp = http.createServer();
const origin = await listening(mcp);
const resource = `${origin}/mcp`;

const provider = new Provider(issuer, {
  clients: [
    { client_id: 'clawhost', token_endpoint_auth_method: 'none', application_type: 'native',
      redirect_uris: ['http://127.0.0.1/callback'], grant_types: ['authorization_code', 'refresh_token'] },
    { client_id: 'machine', client_secret: 'se:cret&1-se:cret&1', redirect_uris: [], response_types: [],
      grant_types: ['client_credentials'] },
  ],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, indicator) => {
        if (indicator !== resource) throw new Error('another resource');
        return { scope: 'tools:call tools:admin', audience: resource, accessTokenTTL: 300, accessTokenFormat: 'opaque' };
      },
      useGrantedResource: () => true,
    },
  },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
});
const answers = provider.callback();
let tokens = 0;
provider.on('server_error', (ctx, error) => console.error(error));
authority.on('request', async (request, response) => {
  if (request.method === 'POST' && request.url === '/token') tokens += 1;
  if (!request.url.startsWith('/interaction/')) return answers(request, response);
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login') {
    return provider.interactionFinished(request, response, { login: { accountId: 'somebody' } });
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  grant.addResourceScope(resource, params.scope);
  return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
});

const discovered = { supportedVersions: ['2026-07-28'], capabilities: {}, resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
const tools = { tools: [{ name: 'whoami', description: 'Says who asks.', inputSchema: { type: 'object' } }], resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
mcp.on('request', async (request, response) => {
  const say = (status, headers, body) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(body === undefined ? '' : JSON.stringify(body));
  };
  const place = '/.well-known/oauth-protected-resource/mcp';
  if (request.url === place) {
    return say(200, {}, { resource, authorization_servers: [issuer], scopes_supported: ['tools:call', 'tools:admin'] });
  }
  // What a test wants to know, and what it wants forgotten.
  if (request.url === '/tokens') return say(200, {}, tokens);
  let text = '';
  for await (const chunk of request) text += chunk;
  const sent = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
  const found = sent && ((await provider.AccessToken.find(sent)) ?? (await provider.ClientCredentials.find(sent)));
  if (!found || ![found.aud].flat().includes(resource)) {
    return say(401, { 'www-authenticate': `Bearer resource_metadata="${origin}${place}"` });
  }
  const message = JSON.parse(text);
  if (message.params?.arguments?.revoke) await found.destroy();
  if (message.params?.arguments?.admin && !found.scope.includes('tools:admin')) {
    return say(403, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="tools:admin"' });
  }
  const who = found.accountId ?? found.clientId;
  const results = { 'server/discover': discovered, 'tools/list': tools };
  const result = results[message.method] ?? { content: [{ type: 'text', text: `you are ${who}` }], resultType: 'complete' };
  return say(200, {}, { jsonrpc: '2.0', id: message.id, result });
});
console.log(JSON.stringify({ issuer, server: resource }));
