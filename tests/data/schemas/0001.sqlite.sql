PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE responses (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	status TEXT NOT NULL, 
	background BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	completed_at BIGINT, 
	expires_at BIGINT, 
	previous_response_id TEXT, 
	conversation_id TEXT, 
	conversation_length INTEGER, 
	server_id TEXT, 
	deleted BOOLEAN NOT NULL, 
	body TEXT NOT NULL, 
	events BLOB, 
	PRIMARY KEY (id), 
	FOREIGN KEY(previous_response_id) REFERENCES responses (id)
);
INSERT INTO responses VALUES('resp_1','key_1','completed',0,1763700020,1763700021,1993800000,NULL,NULL,NULL,NULL,0,'{"id":"resp_1","model":"demo","status":"completed"}',X'789c8bae562aa92c4855b2522a4a2d2ec8cf2b4ed54bcecf2dc8492d494d51aa8d0500b5a50b8f');
INSERT INTO responses VALUES('resp_2','key_1','queued',1,1763700030,NULL,1993800000,'resp_1',NULL,NULL,'f5c9f80b4825429985a75a5de2e30f59',0,'{"id":"resp_2"}',NULL);
CREATE TABLE response_items (
	response_id TEXT NOT NULL, 
	direction TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	item TEXT NOT NULL, 
	tokens BLOB, 
	PRIMARY KEY (response_id, direction, position), 
	FOREIGN KEY(response_id) REFERENCES responses (id) ON DELETE CASCADE
);
INSERT INTO response_items VALUES('resp_1','input',0,'msg_q','{"type":"message","role":"user","content":"O\u00f9? \ud83d"}',NULL);
INSERT INTO response_items VALUES('resp_1','output',0,'msg_a','{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Là."}]}',X'450d03003c8b0000480d030001000000');
INSERT INTO response_items VALUES('resp_2','input',0,'msg_q2','{"type":"message","role":"user","content":"And?"}',NULL);
CREATE TABLE conversations (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	metadata TEXT NOT NULL, 
	next_position INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO conversations VALUES('conv_1','key_1',1763700010,'{"topic":"demo"}',1);
CREATE TABLE conversation_items (
	conversation_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	item TEXT NOT NULL, 
	tokens BLOB, 
	PRIMARY KEY (conversation_id, position), 
	FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
INSERT INTO conversation_items VALUES('conv_1',0,'msg_0','{"type":"message","role":"user","content":"Hi"}',NULL);
CREATE TABLE api_keys (
	id TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	name TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	revoked_at BIGINT, 
	requests_per_minute INTEGER, 
	concurrent_requests INTEGER, 
	tokens_per_minute INTEGER, 
	PRIMARY KEY (id), 
	UNIQUE (hash)
);
INSERT INTO api_keys VALUES('key_1','0000000000000000000000000000000000000000000000000000000000000000','laptop',1763700000,NULL,60,NULL,1000);
INSERT INTO api_keys VALUES('key_2','1111111111111111111111111111111111111111111111111111111111111111','\xe9 \x00 old',1763700001,1763700002,NULL,NULL,NULL);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version VALUES('0001');
CREATE INDEX ix_responses_previous_response_id ON responses (previous_response_id);
CREATE INDEX ix_responses_expires_at ON responses (expires_at);
CREATE INDEX ix_responses_server_id ON responses (server_id) WHERE server_id IS NOT NULL;
CREATE UNIQUE INDEX ix_response_items_id ON response_items (id, response_id, direction);
CREATE UNIQUE INDEX ix_conversation_items_id ON conversation_items (id, conversation_id);
COMMIT;
