BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0010');
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
INSERT INTO "api_keys" VALUES('key_stored','89119420015a3c44eaa1625b9aab8791f40c0c483430f703faef76a536993ccf','stored',1,NULL,1000,NULL,NULL);
CREATE TABLE batch_results (
	batch_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	status INTEGER NOT NULL, 
	answer TEXT NOT NULL, 
	PRIMARY KEY (batch_id, position), 
	FOREIGN KEY(batch_id) REFERENCES batches (id) ON DELETE CASCADE
);
INSERT INTO "batch_results" VALUES('msgbatch_0661380e76bc5c53d332a9ebf4c3077c',0,200,'{"request_id":"req_0661380e7851770de169174e5cffdc5d","body":{"id":"msg_0661380e786abc7f06bd6d9f6f87c276","type":"message","role":"assistant","model":"script","content":[{"type":"text","text":"Hello you"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":68,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":6,"output_tokens_details":{"thinking_tokens":0}}}}');
CREATE TABLE batches (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	endpoint TEXT NOT NULL, 
	status TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	deadline BIGINT NOT NULL, 
	expires_at BIGINT, 
	total INTEGER NOT NULL, 
	metadata TEXT NOT NULL, 
	state TEXT NOT NULL, 
	server_id TEXT, 
	requests TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "batches" VALUES('msgbatch_0661380e76bc5c53d332a9ebf4c3077c','key_stored','/v1/messages','completed',1795743248,1795829648,NULL,1,'{}','{"completed_at":1795743249,"counts":[1,0]}',NULL,'[["a",{}]]');
CREATE TABLE chat_completions (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	model TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	metadata TEXT NOT NULL, 
	completion TEXT NOT NULL, 
	messages TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "chat_completions" VALUES('chatcmpl-0661380e713fcd9ca052ad7fbdef7f22','key_stored','script',1795743248,NULL,'{"a":"b"}','{"id":"chatcmpl-0661380e713fcd9ca052ad7fbdef7f22","created":1795743248,"model":"script","service_tier":null,"system_fingerprint":"fp_64ee26816e","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello you","refusal":null,"annotations":[],"reasoning":null,"reasoning_content":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":68,"completion_tokens":6,"total_tokens":74,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"forced_tokens":0}}}','[{"role":"user","content":"hi"}]');
CREATE TABLE claims (
	owner TEXT NOT NULL, 
	name TEXT NOT NULL, 
	made_id TEXT NOT NULL, 
	content TEXT NOT NULL, 
	expires_at BIGINT, 
	PRIMARY KEY (owner, name)
);
INSERT INTO "claims" VALUES('key_stored','key a','cntr_0661380e7d166366df634c789036fe76','f1691ff50d55ed88002739779f8c6a3fe7ca14d06518048ccba301af82247441',NULL);
CREATE TABLE container_files (
	id TEXT NOT NULL, 
	container_id TEXT NOT NULL, 
	response_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	path TEXT NOT NULL, 
	mime_type TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	hash TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(response_id) REFERENCES responses (id) ON DELETE CASCADE
);
INSERT INTO "container_files" VALUES('cfile_0661380e5ca21ee44159c2bf7febc9e8','cntr_0661380e5b8c25905b5daa11e167584e','resp_0661380e5b72eb314e86113942ec1d5f',0,'a.txt','text/plain',1,1795743247,'6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b');
INSERT INTO "container_files" VALUES('cfile_0661380e5f513f4ba2b2fc88e43dcac8','cntr_0661380e5eb270465ac6f4a98274d7f8','resp_0661380e5eb18a00a12e792b490043c7',0,'a.txt','text/plain',1,1795743247,'6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b');
CREATE TABLE containers (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	name TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	last_active_at BIGINT NOT NULL, 
	idle_minutes INTEGER, 
	expires_at BIGINT, 
	PRIMARY KEY (id)
);
INSERT INTO "containers" VALUES('cntr_0661380e7d166366df634c789036fe76','key_stored','work',1795743249,1795743249,NULL,NULL);
CREATE TABLE contents (
	owner TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (owner, hash)
);
INSERT INTO "contents" VALUES('key_stored','6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b',1,X'31');
INSERT INTO "contents" VALUES('key_stored','79f076abdd19a752db7267bfff2f9022161d120dea919fdaca2ffdfc24ca8c96',4,X'6B657074');
CREATE TABLE conversation_items (
	conversation_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	item TEXT NOT NULL, 
	tokens BLOB, messages TEXT, 
	PRIMARY KEY (conversation_id, position), 
	FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
INSERT INTO "conversation_items" VALUES('conv_0661380e451f2b555bace183feeec310',0,'msg_0661380e4563f6d9fbb7640a3fb11a3e','{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}],"id":"msg_0661380e4563f6d9fbb7640a3fb11a3e","status":"completed"}',NULL,'null');
INSERT INTO "conversation_items" VALUES('conv_0661380e451f2b555bace183feeec310',1,'msg_0661380e5a89da0f3aebc6935206f651','{"type":"message","role":"user","content":[{"type":"input_text","text":"so?"}],"id":"msg_0661380e5a89da0f3aebc6935206f651","status":"completed"}',NULL,'null');
INSERT INTO "conversation_items" VALUES('conv_0661380e451f2b555bace183feeec310',2,'msg_0661380e5ae15a90b2a6d203b64e5a82','{"type":"message","id":"msg_0661380e5ae15a90b2a6d203b64e5a82","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hello you","annotations":[],"logprobs":[]}]}',X'450D03002C430000480D0300A9330000E1010000420D0300','null');
INSERT INTO "conversation_items" VALUES('conv_0661380e451f2b555bace183feeec310',3,'msg_0661380e5b6d2ae4de335183448d492b','{"type":"message","role":"user","content":[{"type":"input_text","text":"1?"}],"id":"msg_0661380e5b6d2ae4de335183448d492b","status":"completed"}',NULL,'null');
INSERT INTO "conversation_items" VALUES('conv_0661380e451f2b555bace183feeec310',4,'ci_0661380e5c3c9f379cf09c8cd1a096ab','{"type":"code_interpreter_call","id":"ci_0661380e5c3c9f379cf09c8cd1a096ab","status":"completed","code":"write a.txt 1","container_id":"cntr_0661380e5b8c25905b5daa11e167584e","outputs":null}',X'450D03003C8B00003C0100001C00000052710000A20D0000480D03005E25000005010000121C0000DC000000100000004C0D0300','[{"role":"assistant","name":null,"content":[{"type":"text","text":"write a.txt 1"}],"channel":"analysis","recipient":"python","content_type":"code"},{"role":"tool","name":"python","content":[{"type":"text","text":"after [''write a.txt 1'']"}],"channel":"analysis","recipient":"assistant"}]');
INSERT INTO "conversation_items" VALUES('conv_0661380e451f2b555bace183feeec310',5,'msg_0661380e5df5a208046cc19be965be09','{"type":"message","id":"msg_0661380e5df5a208046cc19be965be09","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hello you","annotations":[{"type":"container_file_citation","container_id":"cntr_0661380e5b8c25905b5daa11e167584e","file_id":"cfile_0661380e5ca21ee44159c2bf7febc9e8","filename":"a.txt","start_index":9,"end_index":9}],"logprobs":[]}]}',X'450D03002C430000480D0300A9330000E1010000420D0300','null');
CREATE TABLE conversation_sessions (
	conversation_id TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	id TEXT NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (conversation_id, tool), 
	FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
INSERT INTO "conversation_sessions" VALUES('conv_0661380e451f2b555bace183feeec310','python','cntr_0661380e5b8c25905b5daa11e167584e','"[\"write a.txt 1\"]"');
CREATE TABLE conversations (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	metadata TEXT NOT NULL, 
	next_position INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "conversations" VALUES('conv_0661380e451f2b555bace183feeec310','key_stored',1795743245,'{}',6);
CREATE TABLE files (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	container_id TEXT, 
	purpose TEXT NOT NULL, 
	filename TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	hash TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(container_id) REFERENCES containers (id) ON DELETE CASCADE
);
INSERT INTO "files" VALUES('file-0661380e7a51a02e39eb5a807504d60c','key_stored',NULL,'user_data','a.txt',4,1795743249,NULL,'79f076abdd19a752db7267bfff2f9022161d120dea919fdaca2ffdfc24ca8c96');
INSERT INTO "files" VALUES('cfile_0661380e7d168e334e198cd908d7195c','key_stored','cntr_0661380e7d166366df634c789036fe76','user_data','a.txt',4,1795743249,NULL,'79f076abdd19a752db7267bfff2f9022161d120dea919fdaca2ffdfc24ca8c96');
CREATE TABLE key_requests (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	server_id TEXT NOT NULL, 
	began_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	tokens BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "key_requests" VALUES('26b67668df69443f9b7383de90b2a252','key_stored','8450b6332d8840b8b94d1ddc7798f6b5',1795743250033,1795743250051,3,1795743311);
CREATE TABLE message_threads (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	settings TEXT NOT NULL, 
	messages TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "message_threads" VALUES('msg_0661380e7211d0b73d52be1d55738367','key_stored',1795743248,NULL,'{"system":null,"tools":null}','[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"Hello you"}]}]');
CREATE TABLE response_items (
	response_id TEXT NOT NULL, 
	direction TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	item TEXT NOT NULL, 
	tokens BLOB, messages TEXT, 
	PRIMARY KEY (response_id, direction, position), 
	FOREIGN KEY(response_id) REFERENCES responses (id) ON DELETE CASCADE
);
INSERT INTO "response_items" VALUES('resp_0661380e5130da171e920e6a9bcee199','input',0,'msg_0661380e512b3904dc158e9b806ab7e5','{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}],"id":"msg_0661380e512b3904dc158e9b806ab7e5","status":"completed"}',NULL,'null');
INSERT INTO "response_items" VALUES('resp_0661380e5130da171e920e6a9bcee199','output',0,'rs_0661380e54e1d660cdc458c31f59a1b2','{"type":"reasoning","id":"rs_0661380e54e1d660cdc458c31f59a1b2","summary":[],"content":[{"type":"reasoning_text","text":"Hm, hm."}],"status":"completed"}',X'450D03003C8B0000480D03009E0703000B000000DB3B01000D000000470D0300','null');
INSERT INTO "response_items" VALUES('resp_0661380e5130da171e920e6a9bcee199','output',1,'fc_0661380e54e87ee236443ee56bbbaca7','{"type":"function_call","id":"fc_0661380e54e87ee236443ee56bbbaca7","call_id":"call_0661380e54e850ba36be6063798c9814","name":"now","arguments":"{}","status":"completed"}',X'450D03003E3100002F0300003C0100001C00000024AE000099500000DC000000430D03000C100000480D0300332F00004C0D0300','null');
INSERT INTO "response_items" VALUES('resp_0661380e595d28786d3fd5d994b9a176','input',0,'msg_0661380e58fe48c5b660b2f35350cc82','{"type":"message","role":"user","content":[{"type":"input_text","text":"and?"}],"id":"msg_0661380e58fe48c5b660b2f35350cc82","status":"completed"}',NULL,'null');
INSERT INTO "response_items" VALUES('resp_0661380e595d28786d3fd5d994b9a176','output',0,'msg_0661380e59c9285499eb29a33f1ed681','{"type":"message","id":"msg_0661380e59c9285499eb29a33f1ed681","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hello you","annotations":[],"logprobs":[]}]}',X'450D03002C430000480D0300A9330000E1010000420D0300','null');
INSERT INTO "response_items" VALUES('resp_0661380e5aa3b936b6cf056476658ebb','input',0,'msg_0661380e5a89da0f3aebc6935206f651','{"type":"message","role":"user","content":[{"type":"input_text","text":"so?"}],"id":"msg_0661380e5a89da0f3aebc6935206f651","status":"completed"}',NULL,'null');
INSERT INTO "response_items" VALUES('resp_0661380e5aa3b936b6cf056476658ebb','output',0,'msg_0661380e5ae15a90b2a6d203b64e5a82','{"type":"message","id":"msg_0661380e5ae15a90b2a6d203b64e5a82","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hello you","annotations":[],"logprobs":[]}]}',X'450D03002C430000480D0300A9330000E1010000420D0300','null');
INSERT INTO "response_items" VALUES('resp_0661380e5b72eb314e86113942ec1d5f','input',0,'msg_0661380e5b6d2ae4de335183448d492b','{"type":"message","role":"user","content":[{"type":"input_text","text":"1?"}],"id":"msg_0661380e5b6d2ae4de335183448d492b","status":"completed"}',NULL,'null');
INSERT INTO "response_items" VALUES('resp_0661380e5b72eb314e86113942ec1d5f','output',0,'ci_0661380e5c3c9f379cf09c8cd1a096ab','{"type":"code_interpreter_call","id":"ci_0661380e5c3c9f379cf09c8cd1a096ab","status":"completed","code":"write a.txt 1","container_id":"cntr_0661380e5b8c25905b5daa11e167584e","outputs":null}',X'450D03003C8B00003C0100001C00000052710000A20D0000480D03005E25000005010000121C0000DC000000100000004C0D0300','[{"role":"assistant","name":null,"content":[{"type":"text","text":"write a.txt 1"}],"channel":"analysis","recipient":"python","content_type":"code"},{"role":"tool","name":"python","content":[{"type":"text","text":"after [''write a.txt 1'']"}],"channel":"analysis","recipient":"assistant"}]');
INSERT INTO "response_items" VALUES('resp_0661380e5b72eb314e86113942ec1d5f','output',1,'msg_0661380e5df5a208046cc19be965be09','{"type":"message","id":"msg_0661380e5df5a208046cc19be965be09","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hello you","annotations":[{"type":"container_file_citation","container_id":"cntr_0661380e5b8c25905b5daa11e167584e","file_id":"cfile_0661380e5ca21ee44159c2bf7febc9e8","filename":"a.txt","start_index":9,"end_index":9}],"logprobs":[]}]}',X'450D03002C430000480D0300A9330000E1010000420D0300','null');
INSERT INTO "response_items" VALUES('resp_0661380e5eb18a00a12e792b490043c7','input',0,'msg_0661380e5eadcc24b0cccb17dd80d255','{"type":"message","role":"user","content":[{"type":"input_text","text":"1?"}],"id":"msg_0661380e5eadcc24b0cccb17dd80d255","status":"completed"}',NULL,'null');
INSERT INTO "response_items" VALUES('resp_0661380e5eb18a00a12e792b490043c7','output',0,'ci_0661380e5f1e79f30249e4b4c1c72136','{"type":"code_interpreter_call","id":"ci_0661380e5f1e79f30249e4b4c1c72136","status":"completed","code":"write a.txt 1","container_id":"cntr_0661380e5eb270465ac6f4a98274d7f8","outputs":null}',X'450D03003C8B00003C0100001C00000052710000A20D0000480D03005E25000005010000121C0000DC000000100000004C0D0300','[{"role":"assistant","name":null,"content":[{"type":"text","text":"write a.txt 1"}],"channel":"analysis","recipient":"python","content_type":"code"},{"role":"tool","name":"python","content":[{"type":"text","text":"after [''write a.txt 1'']"}],"channel":"analysis","recipient":"assistant"}]');
INSERT INTO "response_items" VALUES('resp_0661380e5eb18a00a12e792b490043c7','output',1,'msg_0661380e5f73a676b7f2290d47454dee','{"type":"message","id":"msg_0661380e5f73a676b7f2290d47454dee","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hello you","annotations":[{"type":"container_file_citation","container_id":"cntr_0661380e5eb270465ac6f4a98274d7f8","file_id":"cfile_0661380e5f513f4ba2b2fc88e43dcac8","filename":"a.txt","start_index":9,"end_index":9}],"logprobs":[]}]}',X'450D03002C430000480D0300A9330000E1010000420D0300','null');
CREATE TABLE response_sessions (
	response_id TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	id TEXT NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (response_id, tool), 
	FOREIGN KEY(response_id) REFERENCES responses (id) ON DELETE CASCADE
);
INSERT INTO "response_sessions" VALUES('resp_0661380e5eb18a00a12e792b490043c7','python','cntr_0661380e5eb270465ac6f4a98274d7f8','"[\"write a.txt 1\"]"');
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
INSERT INTO "responses" VALUES('resp_0661380e5130da171e920e6a9bcee199','key_stored','completed',0,1795743246,1795743246,NULL,NULL,NULL,NULL,NULL,0,'{"id":"resp_0661380e5130da171e920e6a9bcee199","object":"response","created_at":1795743246,"completed_at":1795743246,"status":"completed","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"script","parallel_tool_calls":true,"previous_response_id":null,"conversation":null,"prompt":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[{"type":"function","name":"now","description":"Tells the time.","parameters":{"type":"object","properties":{},"additionalProperties":false},"strict":null}],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","usage":{"input_tokens":114,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":23,"output_tokens_details":{"reasoning_tokens":8,"forced_tokens":0},"total_tokens":137},"user":null,"metadata":{"a":"b"},"_current_date":"2026-11-27"}',X'789CED57DB8EA33810FD95969F51840321215F308FFBB06FAD1632A6487B1B6CD6363D1DB5F2EF5B36104887683297CC659597289471D53955750AFBF19DD87D03644B34984649030BAE81592848400CFCDB82E490C9B6CE41936D181C5F23DB77228A7E5F1626098D3621AC6814168CAE29A4CB101296E61C80A6293A53F93FC0ED2410DAFA5019433B5DA7AB751C2DE304EDAA6E2A1856645B5508C632DB1ADC2F64D668B54337065DE48CBFECB46A25622959652020A0B5D2C33621076759019689CA8C2BC6EA965B8160065BCDDE32D5DAA6B599552F70BA6095AA32CEAAD145AD0AA81092E15A34D691F47BC9F6F129200DD3F82E5427FB3022226C34BC0AD59A6CC845E652D9F9E44ABE8236CCE11A6CC8B76EECE9137AE4CF90BDC07ED6AE91B19CFAC0541B2585DCB9CA41592AED8A514321DADAD5BAAD6BA67B5F077C6625D83DE2725E4A01C7841AD0AF027BC27A1B29A0646DE5B81BAB340C0C2DD40D68AC9833D145E82C6FD685C6C035F3FFFAC6F30B181159E7CA08BB1F61A1B54BDEB3C2906867AD55A43362321F8F3ECA56FA42E29A64B5B348F5191F0AE84AE3F340FE06ACC1837D86072B6A5890AE4635664A9B09A0BE537D4291041275AB8885158570AE58F5D764C5779DCB98D582F7453A3C39904D56A91D3AC98D978E33347D36B0038C975603E8CE710E9DB9D49DE4F61FEC9854C9FB962085302CAFBC425BC3763054A635639590142B98658E16FE909C1C0E87E05CECA7623A133CBD0BFE2EF8BBE0FF4782EF9B5D60BD16486FFE3BBF1C1A3B13B280374FC6ED98E46CECAEA01F0B661C0A31D02249425EF078B5E1112D5729A3F972DA754E30D8F9AE67BB8759B9CF52E8B765584B7B9943D441CEBE02DC19E721D2687131E7B290F9A61E9A9ECC033F7D7B81A304EB35033DBE09F42EDC967C7232FB7670AB9B820BBE0B5B72536C0FCFDF97B9F54DD12DAEC2A624CC41DBDC045A2F864F7580A99BC777A2E54BE8D25F29E523FA2F4DD34BE869F8B3A7E9F59CA673F77806FB32D58B4397D28F5CE919D7E1D3ED4F4803DF924FF96ED600CB2889E3086095E4399EF9D8DA1D1F7147D705FEDF74C72ACC5994E4908449B44E373CDDD0F8E3E180E95D5B638A1C5BF2355F9C13C8D9D1CD65A9D3E5B465AF237796B741D9EF8759E95C0475A90FA31F80699A42C47592E06F1648FCA7348D677CAD60C6E539CEAB5F72B39AAECCF0F86D6F57BFEBA00CFE9406BD5F4FEFD7D39F773DC57926A7A2A76EC44F4DE3F07827BE3F8AE3BBEEACE63BE6B3C66FC0683E1C3F128369197D304DBD4E14DDBF8E675CAC359F86F2F5B4AC1A8146EBC315F7EAA7FF00E278E771');
INSERT INTO "responses" VALUES('resp_0661380e595d28786d3fd5d994b9a176','key_stored','completed',0,1795743247,1795743247,NULL,'resp_0661380e5130da171e920e6a9bcee199',NULL,NULL,NULL,0,'{"id":"resp_0661380e595d28786d3fd5d994b9a176","object":"response","created_at":1795743247,"completed_at":1795743247,"status":"completed","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"script","parallel_tool_calls":true,"previous_response_id":"resp_0661380e5130da171e920e6a9bcee199","conversation":null,"prompt":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","usage":{"input_tokens":99,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":0,"forced_tokens":0},"total_tokens":105},"user":null,"metadata":{},"_current_date":"2026-11-27"}',X'789CED56ED6EE230107C95937F239410089827B877A82ACB8937D457C7CEF9A32DAA78F75B87848402A76B55D4D31DFFC8D8DE9D9D9D35BE7B257EDB0059130BAE31DAC1B4B4C03D0832210E7E06D025301DEA022C592793C336B27E255274E75892E769B64A60411762B65AAE7291556221289D1794A7CB1C8399E207947E9408B12E15E388A74BBA58CEB3D97C89B8A91B05FD8A0E4A2119CF7D70785E6AD658B3C1300E4314BC7CDC58133472A9B872302160ADB1FD31A9FB604C80E752B961C5791B4A2F914C8FD5FC8599E09BE099378F70BCE08D51ACE46A08511B010A29B9D2CAC6C722DBB3647D773F210DB7B817D4D139CC880C1B0B4FD204C77A2DD81929D32C11A85D0A749640CE695102A49446D98C7E02EB78A4DE534149EAC61F7F61D2F201D8236CCFE21645D1E318D80D67B4D49BD85CA82A6363BF6A1032D4D10EA1AEB9ED62EDF09B57E0B7483D46A9241C3477609F24DAC6B7181150F1A0A23CCE1B0BBD081EEA062C363542E93489C88B8FA93171CDDB5F9D37DB05CC885517C649BF1D6821BAD7F7C1604AC479F086EC41B76F84370D536683B517AEF570049A2E27B6C2B51E6F407315232711AEECDEFBDB373852D765273C11D2F142B5A3121CDF405F7F708316359A4E70CFB19ADD6E37391DB7633B9F8C5C7A1BB9DBC8DD46EE5347AEB39B4439A65C88F3FF75B3DE5A4C6A012F6D15F1C448A31AE7217298ECC7B2769BD1549674B65ACC2985624679965529887C95928B53658D6AB5744EE20E1D7BD73CF038F5A492A807E3DA3D23B1D68BD14551E9B3E575EB0CA7C15FAE2FDB97C3DE43FD44903ED580C4A42389FAC98E6EEADD46F017D7DA78DE5D04D131835B2E54358A34C52B00DB7BA6A8F9758ADAE75B93EFA05474FA11D98F725D5C97EBB7AD09EFA56A349C639A5F8769E78656D43F647B64ED4B74975FE7EC712D1FB6787B2F5D2A6E75F56BE9F012F8E0A5F4590A5DBADC067627E2D02F792C8D57CEAAF8973E98FE3DC3DC9E80FFE51310275D8FC781D2C911324CD52B699B200E5BE34DDFB6E5D9E22D3AC0BBC335DB43F91B641CF4D0C2715CD4B31C676A35F35C1D903459EC7EF772BDFF05EA810A88');
INSERT INTO "responses" VALUES('resp_0661380e5aa3b936b6cf056476658ebb','key_stored','completed',0,1795743247,1795743247,NULL,NULL,'conv_0661380e451f2b555bace183feeec310',1,NULL,0,'{"id":"resp_0661380e5aa3b936b6cf056476658ebb","object":"response","created_at":1795743247,"completed_at":1795743247,"status":"completed","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"script","parallel_tool_calls":true,"previous_response_id":null,"conversation":{"id":"conv_0661380e451f2b555bace183feeec310"},"prompt":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","usage":{"input_tokens":74,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":0,"forced_tokens":0},"total_tokens":80},"user":null,"metadata":{},"_current_date":"2026-11-27"}',X'789CED565B6EDB3010BC4AC16FC3902C4B7E9CA07708028292560E1B8A54F9486204BE7B97D4D3B10D34468D14ADFF9CA1B83B3B3BBBE1C33BB1FB06C89668308D9206E6850666A1243362E0A703590095AECE41936D341B3E23DB77C2CBEE1E8DB22C4ED611A48C25F926C9F2ACA8A2345BAEB22C5D439E633095FF80C24E1221D6A5A20CF178B54957CB64B15C21AEEA46407F229D1048C632EB0CDEE792365AED308CC110392B9E775A39895C2A260CCC0868AD747F8DCB3E182DC1322ECC7862AC7685E548A6C76AF64695B38DB3D4AA67383EB04A095A303186A8550902299942F3C6FA22C35DB27D789C918669FC16C4D13DCC880C1B0D2F5C39437B2DA897B28D5928F902DA30CF6B10D98383C8CB34AE16799AA6583BC4EBA4028022892372F091B1DA41B3F62FCC5D3C017D86FD595CA336B2CDD69E62538C925CEE7C7AA82AA57DDB6A28B9ABBD2B5C5D33DDC5C294865560F758818F527118A437A05F38BAC7068C94503127BC4AC62A0DBD1616EA0634F6D643F13CF2C89BF5A93171CDC2AFCEA2E10033A23EB932DCEE475A88B6323F294C893873569116346D3FAC6AA8503BAC3D37C1CA1E68BA9CD81113ACDE8064C2478E3C5CE97604F61F70A42E8BAE45A4E486E5224C8C336C077DFDCE8C5AD4E8BD925986D51C0E87D9E9D41DBBFA64F2E2FBE4DD27EF3E79B798BCCE751CE598B3B23CFF9F6FD13B8C7259C25BA8C2DF986854E358780EB3D638B5D94D8613E2946DA27CC1B272112579B6446CBD2017874B2B11B43486E317D2F7AE79627EF849C5510FCAA4794562C1B5DE455EE9B3E575E71487C25EAE2F69CBA19FA17E22489F6A447CD28944FD807B37F56E23F88B49A92CEBF68177CCE8960B554D22CD7113607BCF14B5BC4D516DBE2DF90E4278A71F91BD966B7A5BAEDFF6CA7D96AA92708E69761BA69D1B82A8BFC9F6C8DA97E8AEBECED9D35AAEB678D84B978A5BDF7C2D0D0F822B97D29F52E8D2721BD99D88B3F99237D3F4E4AC8A7FE9BBE9DF33CCFD25F83FBF04B16B723A152BFF1A9820E370BD93D08472F8D42FFCD096578DCB74840FC3B6EDA1EC03320D3AB4701A17F52CA6998266968901597BE8F2FBF5F11731F714B5');
INSERT INTO "responses" VALUES('resp_0661380e5b72eb314e86113942ec1d5f','key_stored','completed',0,1795743247,1795743247,NULL,NULL,'conv_0661380e451f2b555bace183feeec310',3,NULL,0,'{"id":"resp_0661380e5b72eb314e86113942ec1d5f","object":"response","created_at":1795743247,"completed_at":1795743247,"status":"completed","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"script","parallel_tool_calls":true,"previous_response_id":null,"conversation":{"id":"conv_0661380e451f2b555bace183feeec310"},"prompt":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[{"container":{"type":"auto"},"type":"code_interpreter"}],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","usage":{"input_tokens":482,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":19,"output_tokens_details":{"reasoning_tokens":0,"forced_tokens":0},"total_tokens":501},"user":null,"metadata":{},"_current_date":"2026-11-27"}',X'789CED58EB6EA33A107E95CABFA3081348A04F70DEA1AA903143CA29D81CDB741B5579F73336D7B424DB7493DDAE947FC918CF7CF3CD557E7823665703B9270A742D85862557C00C64644134FCD780E09088A64A41917B6F317C46EEDF489175F7126FBDA6ABC88330DDF890AE6800D19AD2551CF8C06916E6A84CA6FF0237134328EB4C250CE57413879B60E5071B94CBAA2EA13F114D592218C34CA3F17E21925AC92DAAD1A82265FC79AB6423104BCE4A0D0B024A49D55F2B44AF2CC9C0B0A2D4E38936AAE1A64030BDAC62AF896C4CDD98C4C867383C3052960967E5A8A292199408497355D4C63AE9EE92FB87C705A999C26FA13CB887161161ADE0A5908D4E7A2E124B65AB934BF1024A338B6B20D90A07928390E67E1A8621FA0E345AE500C057D4237BAB19BD1D386BFFA16DFE04C933EC66E50AB911ADB5F61483A2A528C4D69A873C97CA86AD82AC682A9B154D5531D5E942939AE56076E881D592173050AF41BD14983DC6C94806396B4ACB92365241CF8581AA0685B1B522BAF4ACE4D558D368B862EE5797A2EE002D223FA9D485D98DB050DAD2FC24D124CA596324698548FBC39BA510C32F2C9441A1FBC85E6DFF720C67520803AAB6A428B27FB41AEAA4945BA42CD5AE02ACA0EEA0E277DA55480D8295169067C5B96A2B67F74E8E1E0BDE459664856669E90AADD16C0B3D6D8D1E29AC306533661862DEEFF78B8FC57A580C1F0A96DE0AF656B0B782FD4605DB256B812C2E5996CDCF59BF4F4C742E8357E785BD3161E2BDEB2E5F51579B7DC558E07CC5E37CB58979EEC53CE219655EBC6629395AA056330ADDAF2E0249AB551835691C11F7C3D80BD330638C52A0EB4D180530D4545773B324CC82FF592F5BB51C246778F88EC44F4349AC7489AD0203398324F865240BD22ABF273F14AA229742165E10D91DBB18ACF505612D8DEB299701B6B9245F1743155D10153D1B951430072ABE00A8AEB5B89CBF6336927767E05B0E023BEAE6B61DEFF7B588E5B0F2CC22A15741321D1EC7E2447FF3F098F2301BDF2BCE914F0D53BA7A4F08FD40488533C74EF48E824A6F4780591E32DF8BBC60CD398D5388D7610A5E7C7C802A59BA5D45EB02BF107681AA9F98DDC0495EE0769130A17F20B296185CC2ECFA79644EBAF304375373C2C18379F449EC1F18E96D8D4963AD4E38EAD76CBBD3F53B9FDD129810D2B06E2BB77BF4B87C1D716BA2E97813A4E175BCEA1BE33F509676E13C40FB65B0EBEB82BDDBC9E64CAC63584E64CEE63AB047DBB3C2834ED4B786BC2821E145F7C5979B8653D3DE703FC756C67C0A1004348CB99FE69B1C521E43D45D11AC7235EBB60B57D96A7008271F886CF8F7F3943ED699A3EBB0DD95A24BE84F26CA4163398A37FE737D65EACC6183F9AB53E78CEE7872C8FBDED567DA74AE7F65A2DDE28BF13D36D64FAC8EFE9F79B39B9ECCE6C0377DB7FBAB77DAC5AD58BF55B1DE1E816F8FC0673F0263B0C5B48F0591BF38108DFD10FDB1C1CB866FED9B880BA76B2FA3783F8CF75E6497B103D154EB10FBA9620C049F9A72641B560E92D0A3FB53AFD78FFF038BB53260');
INSERT INTO "responses" VALUES('resp_0661380e5eb18a00a12e792b490043c7','key_stored','completed',0,1795743247,1795743247,NULL,NULL,NULL,NULL,NULL,0,'{"id":"resp_0661380e5eb18a00a12e792b490043c7","object":"response","created_at":1795743247,"completed_at":1795743247,"status":"completed","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"script","parallel_tool_calls":true,"previous_response_id":null,"conversation":null,"prompt":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[{"container":{"type":"auto"},"type":"code_interpreter"}],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","usage":{"input_tokens":444,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":19,"output_tokens_details":{"reasoning_tokens":0,"forced_tokens":0},"total_tokens":463},"user":null,"metadata":{},"_current_date":"2026-11-27"}',X'789CED58596EDB3010BD4AC06FC3D066C9F6097A8720102869E4B0914895A4D21881EFDE21B527B21BA776DA02FEB386E4F0CD9BD5BC7F257A5F01D91209AA125CC13295403564644114FCA881A710F3BA4C4092ADB3E8B791ED2B61597B2E76C2D0F5D70EAC2071D7D471A8EB41B4F19260E338819F46A84C24DF21D5A38B50D65E155394BBD1661505BE17442817655540B7C2EBA240309AEA5AE179C6E34A8A1DAA51A822A1E9D34E8A9A23969C160A1604A414B23BC678A72CCE405356A861456959A79A21984E56D29758D4BAAA75ACC5134C17B410459CD26250518A0C0A84A452C92A6D8CB467C9F6FE61412A2A712F149373782322AC243C3351ABB8E3223654363A53C19F412A6A707532B4B7ACF4F40B35A68F103FC17E562ED1623ED681542BC119DF19CF419E0B699C5142C6EAD2F8BA2E4B2A5B5D07FCA639E83DE2325A72063DA10AE433C398D0564632C8695D18DB9516123A0B35941548F49811B94BC7485EB4B91A2F2EA9FDD5069E5DC01BD1EA4428A6F7032C9436E43D0ABC12E5B4D682344224F3FED5B0854EE5064AAFD06E32479BCF149D1433AE41568614490E0F4643151762879425CAC6B511542D54DCA76CDC57C069610039469CCB261FF66FE468314F5B7F918C299A14367D6A4577D0D156AB81C2120331A39A22E6C3E1B0789F82D3107F9786EE2D0D6F69784BC3ABA7611B820C595CD22C9BEF895E176E685C062FD60A7362C4C45BD36D14A22E9BB8291BD23677315D73DFF1820D044990BA69E4B97E488EA69DD18C42FBABF540DC68E55A8ECB81173941B8A269980774B3F6A2208BF2759F296D26CD92300BFE7715CA6F3888CFB0F00D891F86121BE9120B003A720649F0C74816A451BE253F25AA229742B6BA20B23B7A3158E105612DB5AD299701165D92AF8BA15A5F10957B362AC1610ED4E602A0DAD26263FE8E1A4FDE9D816FD90B4CAB9B9B619CAF2B11CB7E909945E25E05C9B8791CF393FBC5CD63CCC3AC7FAFD8473ED44C5DFF2D21EE3B424AEC39A6A3B714946A37E220F269188549947BDEC6C98228580519C0F1062A45616715A518EEE06680AA1EA999AB49CE70BA8829573F1159430C0E6166A83CD227ED7A8CF3A63E61E0A41F7D10FB3B46BABB86A031B78E38EA866733D375339F991228E742D376D636D3F1307C1D316BA4E978117457D7B1AA2B8CDFA028CCC03941FB69B0E175C1DEED457D26D6C12D272227BA0EECE1EE59E1A41275A5216705C4296B777CBA685835CD09FB733068E5FA7990502FF1F274BD86C0CFF0EF547784D3D2E6AC9D2E6C66CBDE20EC7CC0B3FEEBF7217DAC32AFAFC3769B8A36A03F182893C27214EFE6EFD595B131D302F35F87CE19D5F16493F79CABF7B4715FFF4C47BBF917FD7BACAD9F181DBDBFF312375E998D817FF435EEBF9E6917B764FDA792F5F6B47B7BDA6D9F76B1F0F271750A02F32F6B241AAA1CDA639C97F57BCD4B8775A72D1A83F8D037ED4E6446AC8968ACB5F7FD58313A221D5F65C9D6B4188086FEE1D49BF4C32F72EA04B4');
CREATE TABLE stored_bytes (
	id TEXT NOT NULL, 
	added BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "stored_bytes" VALUES('key_stored',27084);
CREATE TABLE uploads (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	status TEXT NOT NULL, 
	file TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "uploads" VALUES('upload_0661380e7a51bfcd5525969ceebfe508','key_stored',1795743249,1795746849,'completed','{"id":"file-0661380e7a51a02e39eb5a807504d60c","purpose":"user_data","filename":"a.txt","size":4,"created_at":1795743249,"expires_at":null,"completed_by":"4ac0c44be30830bad9baa8101386b6ebf9c5190e19322a6f73d232c37c76c977"}');
CREATE INDEX ix_responses_previous_response_id ON responses (previous_response_id);
CREATE INDEX ix_responses_expires_at ON responses (expires_at);
CREATE INDEX ix_responses_server_id ON responses (server_id) WHERE server_id IS NOT NULL;
CREATE UNIQUE INDEX ix_response_items_id ON response_items (id, response_id, direction);
CREATE UNIQUE INDEX ix_conversation_items_id ON conversation_items (id, conversation_id);
CREATE INDEX ix_container_files_container_id ON container_files (container_id);
CREATE INDEX ix_container_files_response_id ON container_files (response_id);
CREATE INDEX ix_chat_completions_owner ON chat_completions (owner, created_at, id);
CREATE INDEX ix_chat_completions_expires_at ON chat_completions (expires_at);
CREATE INDEX ix_containers_owner ON containers (owner, created_at, id);
CREATE INDEX ix_containers_expires_at ON containers (expires_at);
CREATE INDEX ix_files_owner ON files (owner, created_at, id);
CREATE INDEX ix_files_container_id ON files (container_id);
CREATE INDEX ix_files_expires_at ON files (expires_at);
CREATE INDEX ix_key_requests_expires_at ON key_requests (expires_at);
CREATE INDEX ix_key_requests_owner ON key_requests (owner, began_at);
CREATE INDEX ix_files_hash ON files (hash);
CREATE INDEX ix_container_files_hash ON container_files (hash);
CREATE INDEX ix_responses_owner ON responses (owner);
CREATE INDEX ix_conversations_owner ON conversations (owner);
CREATE INDEX ix_claims_made_id ON claims (made_id);
CREATE INDEX ix_claims_expires_at ON claims (expires_at);
CREATE INDEX ix_message_threads_owner ON message_threads (owner);
CREATE INDEX ix_message_threads_expires_at ON message_threads (expires_at);
CREATE INDEX ix_batches_expires_at ON batches (expires_at);
CREATE INDEX ix_batches_owner ON batches (owner, created_at, id);
CREATE INDEX ix_uploads_expires_at ON uploads (expires_at);
CREATE INDEX ix_uploads_owner ON uploads (owner, created_at, id);
COMMIT;
