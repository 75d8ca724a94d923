INSERT INTO notes (name, value) VALUES
('consents/000000000001da5c98e574bfc2ed', '{"sink":"https://a.example/hook","rate":120}'),
('consents/0000000000025afc66ac6fc48ab3', '{"sink":"https://a.example/hook","rate":null}'),
('deliveries/000000000001da5c98e574bfc2ed', '{"position":17,"state":"retrying","delivered":12,"rejected":1,"failures":3,"failing":"2026-01-01T00:00:00Z","lasterror":"the sink answered 503\u0000","lastattempt":"2026-01-01T00:00:07Z","lastdelivery":"2025-12-31T00:00:00Z","next":"2026-01-01T00:00:11Z"}'),
('deliveries/0000000000025afc66ac6fc48ab3', '{"position":1,"state":"active","delivered":0,"rejected":0,"failures":0,"failing":"","lasterror":"","lastattempt":"","lastdelivery":"","next":""}'),
('deliveries/000000000005d5725d0dd8b5c965', '{"position":3,"state":"active","delivered":0,"rejected":0,"failures":0,"failing":"","lasterror":"","lastattempt":"","lastdelivery":"","next":""}'),
('delivery/consents', '"ab"'),
('delivery/lease', '{"holder":"me","beat":41}'),
('subscriptions', '{"revision":5,"count":2}'),
('subscriptions/000000000001da5c98e574bfc2ed', '{"protocol":"HTTP","sink":"https://a.example/hook","source":"https://r.example/","types":["io.xregistry.group.created"],"filters":[{"prefix":{"subject":"/é"}}],"config":{"after":0},"protocolsettings":{"method":"POST"},"root":"https://r.example","revision":4,"credential":{"credentialtype":"PLAIN","members":{"identifier":"me"}},"sealed":"5e318f8cf9cbe249.UW_DiclsvBQt8zSd0iObhDN8yoZBUku83ReCa8dDvIgaeqjAcGNAhSJyWKe02Cxlvh1aMLpC"}'),
('subscriptions/000000000005d5725d0dd8b5c965', '{"protocol":"FILE","sink":"file:a.jsonl","revision":5}')
