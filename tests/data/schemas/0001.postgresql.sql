CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.api_keys (
    id text NOT NULL,
    hash text NOT NULL,
    name text NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint,
    requests_per_minute integer,
    concurrent_requests integer,
    tokens_per_minute integer
);
CREATE TABLE public.conversation_items (
    conversation_id text NOT NULL,
    "position" integer NOT NULL,
    id text NOT NULL,
    item text NOT NULL,
    tokens bytea
);
CREATE TABLE public.conversations (
    id text NOT NULL,
    owner text NOT NULL,
    created_at bigint NOT NULL,
    metadata text NOT NULL,
    next_position integer NOT NULL
);
CREATE TABLE public.response_items (
    response_id text NOT NULL,
    direction text NOT NULL,
    "position" integer NOT NULL,
    id text NOT NULL,
    item text NOT NULL,
    tokens bytea
);
CREATE TABLE public.responses (
    id text NOT NULL,
    owner text NOT NULL,
    status text NOT NULL,
    background boolean NOT NULL,
    created_at bigint NOT NULL,
    completed_at bigint,
    expires_at bigint,
    previous_response_id text,
    conversation_id text,
    conversation_length integer,
    server_id text,
    deleted boolean NOT NULL,
    body text NOT NULL,
    events bytea
);
INSERT INTO public.alembic_version VALUES ('0001');
INSERT INTO public.api_keys VALUES ('key_1', '0000000000000000000000000000000000000000000000000000000000000000', 'laptop', 1763700000, NULL, 60, NULL, 1000);
INSERT INTO public.api_keys VALUES ('key_2', '1111111111111111111111111111111111111111111111111111111111111111', '\xe9 \x00 old', 1763700001, 1763700002, NULL, NULL, NULL);
INSERT INTO public.conversation_items VALUES ('conv_1', 0, 'msg_0', '{"type":"message","role":"user","content":"Hi"}', NULL);
INSERT INTO public.conversations VALUES ('conv_1', 'key_1', 1763700010, '{"topic":"demo"}', 1);
INSERT INTO public.response_items VALUES ('resp_1', 'input', 0, 'msg_q', '{"type":"message","role":"user","content":"O\u00f9? \ud83d"}', NULL);
INSERT INTO public.response_items VALUES ('resp_1', 'output', 0, 'msg_a', '{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Là."}]}', '\x450d03003c8b0000480d030001000000');
INSERT INTO public.response_items VALUES ('resp_2', 'input', 0, 'msg_q2', '{"type":"message","role":"user","content":"And?"}', NULL);
INSERT INTO public.responses VALUES ('resp_1', 'key_1', 'completed', false, 1763700020, 1763700021, 1993800000, NULL, NULL, NULL, NULL, false, '{"id":"resp_1","model":"demo","status":"completed"}', '\x789c8bae562aa92c4855b2522a4a2d2ec8cf2b4ed54bcecf2dc8492d494d51aa8d0500b5a50b8f');
INSERT INTO public.responses VALUES ('resp_2', 'key_1', 'queued', true, 1763700030, NULL, 1993800000, 'resp_1', NULL, NULL, '962966012f564de8955f4ea94e0771d2', false, '{"id":"resp_2"}', NULL);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_hash_key UNIQUE (hash);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.conversation_items
    ADD CONSTRAINT conversation_items_pkey PRIMARY KEY (conversation_id, "position");
ALTER TABLE ONLY public.conversations
    ADD CONSTRAINT conversations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.response_items
    ADD CONSTRAINT response_items_pkey PRIMARY KEY (response_id, direction, "position");
ALTER TABLE ONLY public.responses
    ADD CONSTRAINT responses_pkey PRIMARY KEY (id);
CREATE UNIQUE INDEX ix_conversation_items_id ON public.conversation_items USING btree (id, conversation_id);
CREATE UNIQUE INDEX ix_response_items_id ON public.response_items USING btree (id, response_id, direction);
CREATE INDEX ix_responses_expires_at ON public.responses USING btree (expires_at);
CREATE INDEX ix_responses_previous_response_id ON public.responses USING btree (previous_response_id);
CREATE INDEX ix_responses_server_id ON public.responses USING btree (server_id) WHERE (server_id IS NOT NULL);
ALTER TABLE ONLY public.conversation_items
    ADD CONSTRAINT conversation_items_conversation_id_fkey FOREIGN KEY (conversation_id) REFERENCES public.conversations(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.response_items
    ADD CONSTRAINT response_items_response_id_fkey FOREIGN KEY (response_id) REFERENCES public.responses(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.responses
    ADD CONSTRAINT responses_previous_response_id_fkey FOREIGN KEY (previous_response_id) REFERENCES public.responses(id);
