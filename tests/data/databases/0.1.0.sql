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
CREATE TABLE batch_results (
	batch_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	status INTEGER NOT NULL, 
	answer TEXT NOT NULL, 
	PRIMARY KEY (batch_id, position), 
	FOREIGN KEY(batch_id) REFERENCES batches (id) ON DELETE CASCADE
);
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
INSERT INTO "chat_completions" VALUES('chatcmpl-066136a576a1fd8ce9516da883e4d788','','script',1795737192,NULL,'{"a":"b"}','{"id":"chatcmpl-066136a576a1fd8ce9516da883e4d788","created":1795737192,"model":"script","service_tier":null,"system_fingerprint":"fp_64ee26816e","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello you","refusal":null,"annotations":[],"reasoning":null,"reasoning_content":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":68,"completion_tokens":6,"total_tokens":74,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"forced_tokens":0}}}','[{"role":"user","content":"hi"}]');
CREATE TABLE claims (
	owner TEXT NOT NULL, 
	name TEXT NOT NULL, 
	made_id TEXT NOT NULL, 
	content TEXT NOT NULL, 
	expires_at BIGINT, 
	PRIMARY KEY (owner, name)
);
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
CREATE TABLE contents (
	owner TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (owner, hash)
);
INSERT INTO "contents" VALUES('','79f076abdd19a752db7267bfff2f9022161d120dea919fdaca2ffdfc24ca8c96',4,X'6B657074');
CREATE TABLE conversation_items (
	conversation_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	item TEXT NOT NULL, 
	tokens BLOB, messages TEXT, 
	PRIMARY KEY (conversation_id, position), 
	FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
INSERT INTO "conversation_items" VALUES('conv_066136a56fb2f2b89ae9100fe1f3efef',0,'msg_066136a56fba9f179865fd2ae7774fc6','{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}],"id":"msg_066136a56fba9f179865fd2ae7774fc6","status":"completed"}',NULL,'null');
INSERT INTO "conversation_items" VALUES('conv_066136a56fb2f2b89ae9100fe1f3efef',1,'msg_066136a576617b37a56a85bbaeb8295a','{"type":"message","role":"user","content":[{"type":"input_text","text":"so?"}],"id":"msg_066136a576617b37a56a85bbaeb8295a","status":"completed"}',NULL,'null');
INSERT INTO "conversation_items" VALUES('conv_066136a56fb2f2b89ae9100fe1f3efef',2,'msg_066136a57673263581b946dab9c84173','{"type":"message","id":"msg_066136a57673263581b946dab9c84173","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hello you","annotations":[],"logprobs":[]}]}',X'450D03002C430000480D0300A9330000E1010000420D0300','null');
CREATE TABLE conversation_sessions (
	conversation_id TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	id TEXT NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (conversation_id, tool), 
	FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE TABLE conversations (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	metadata TEXT NOT NULL, 
	next_position INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "conversations" VALUES('conv_066136a56fb2f2b89ae9100fe1f3efef','',1795737191,'{}',3);
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
INSERT INTO "files" VALUES('file-066136a577dd4f40e11e28286b24778e','',NULL,'user_data','a.txt',4,1795737192,NULL,'79f076abdd19a752db7267bfff2f9022161d120dea919fdaca2ffdfc24ca8c96');
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
CREATE TABLE message_threads (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	settings TEXT NOT NULL, 
	messages TEXT NOT NULL, 
	PRIMARY KEY (id)
);
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
INSERT INTO "response_items" VALUES('resp_066136a5708d52b49df6778ff20b1ee1','input',0,'msg_066136a5708775a5899426200cf67fb8','{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}],"id":"msg_066136a5708775a5899426200cf67fb8","status":"completed"}',NULL,'null');
INSERT INTO "response_items" VALUES('resp_066136a5708d52b49df6778ff20b1ee1','output',0,'rs_066136a5747714ae36630ec817927f8f','{"type":"reasoning","id":"rs_066136a5747714ae36630ec817927f8f","summary":[],"content":[{"type":"reasoning_text","text":"Hm, hm."}],"status":"completed"}',X'450D03003C8B0000480D03009E0703000B000000DB3B01000D000000470D0300','null');
INSERT INTO "response_items" VALUES('resp_066136a5708d52b49df6778ff20b1ee1','output',1,'fc_066136a5747e2997df8bd7182aa94cb3','{"type":"function_call","id":"fc_066136a5747e2997df8bd7182aa94cb3","call_id":"call_066136a5747dedfe966240f4237dd7cb","name":"now","arguments":"{}","status":"completed"}',X'450D03003E3100002F0300003C0100001C00000024AE000099500000DC000000430D03000C100000480D0300332F00004C0D0300','null');
INSERT INTO "response_items" VALUES('resp_066136a576062a1b24b09084a9648361','input',0,'msg_066136a575e24e03d522af325dfb9feb','{"type":"message","role":"user","content":[{"type":"input_text","text":"and?"}],"id":"msg_066136a575e24e03d522af325dfb9feb","status":"completed"}',NULL,'null');
INSERT INTO "response_items" VALUES('resp_066136a576062a1b24b09084a9648361','output',0,'msg_066136a5761a8766ddccd65887b7a52c','{"type":"message","id":"msg_066136a5761a8766ddccd65887b7a52c","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hello you","annotations":[],"logprobs":[]}]}',X'450D03002C430000480D0300A9330000E1010000420D0300','null');
INSERT INTO "response_items" VALUES('resp_066136a57665017618acbfd5ab38624f','input',0,'msg_066136a576617b37a56a85bbaeb8295a','{"type":"message","role":"user","content":[{"type":"input_text","text":"so?"}],"id":"msg_066136a576617b37a56a85bbaeb8295a","status":"completed"}',NULL,'null');
INSERT INTO "response_items" VALUES('resp_066136a57665017618acbfd5ab38624f','output',0,'msg_066136a57673263581b946dab9c84173','{"type":"message","id":"msg_066136a57673263581b946dab9c84173","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hello you","annotations":[],"logprobs":[]}]}',X'450D03002C430000480D0300A9330000E1010000420D0300','null');
CREATE TABLE response_sessions (
	response_id TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	id TEXT NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (response_id, tool), 
	FOREIGN KEY(response_id) REFERENCES responses (id) ON DELETE CASCADE
);
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
INSERT INTO "responses" VALUES('resp_066136a5708d52b49df6778ff20b1ee1','','completed',0,1795737192,1795737192,NULL,NULL,NULL,NULL,NULL,0,'{"id":"resp_066136a5708d52b49df6778ff20b1ee1","object":"response","created_at":1795737192,"completed_at":1795737192,"status":"completed","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"script","parallel_tool_calls":true,"previous_response_id":null,"conversation":null,"prompt":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[{"type":"function","name":"now","description":"Tells the time.","parameters":{"type":"object","properties":{},"additionalProperties":false},"strict":null}],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","usage":{"input_tokens":114,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":23,"output_tokens_details":{"reasoning_tokens":8,"forced_tokens":0},"total_tokens":137},"user":null,"metadata":{"a":"b"},"_current_date":"2026-11-26"}',X'789CED57DB8EA33810FD95969F51C42581245F308FFBB06FAD96657091F636D8AC6D7A3A6AE5DFB76C20900ED1642E99CB2A2F5128E3AA73AAEA14F6E33BB1FB06C89668308D92061685066681938018F8B7055900956D9D8326DB3038BE46B6EF44F07E1F0DD3344A52B6CAC2355FC5F972C3CB34CBD6651987790410A13395FF03859D04425B1F8A32B447D966952559B489D1AEEAA6826145B65585602CB3ADC1FD42D246AB1DBA31E82267C5CB4EAB56229692550602025A2B3D6C137270463958262A33AE18ABDBC20A0433D86AF646556B9BD652AB5EE074C12A55D18255A38B5A71A8109229B468AC23E9F792EDE353401AA6F15DA84EF6614444D8687815AA3574C80575A9EC7C164ABE8236CCE11A6CC8B76EECE9137A2C9E81BEC07ED6AE91B19CFAC0541B2585DCB9CA41592AED8A5103176DED6ADDD635D3BDAF033EB312EC1E71392FA58063420DE857813D61BD8D7028595B39EEC62A0D03430B75031A2BE64CD122749637EB4263E09AF97F7DE3F9058C88AC736584DD8FB0D0DA25EF596148B4B3D62AD21931998F471F652B7D21714DB2DA59A4FA8C0F1CBAD2F83C90BF016BF0609FE1C18A1A16A4AB518D99D26602A8EF549F50248144DD2A62619C0BE78A557F4D567CD7B98C592D8ABE48872707B2A195DAA193DC78E93843D367033BC078693580EE1CE7D0994BDD496EFFC18E499545DF12840BC3F2CA2BB4356C0743655A3356094931CE2C73B4F087E4E4703804E7623F15D399E0A3BBE0EF82BF0BFE7F24F8BED905D66B81F4E6BFF3F1D0D854480E6F9E8CDB31C9D9D85D413F16CC38149659162D1924699A8450AC51E97156AECB69D739C160E7BB9EED1E66E53E4BA1DF46B196F63287A4834CBF02DC19E721D2687131E7B2407D530F4D4FE6819FBEBDC05182F59A81BEBC09F42EDC967C7232FB7670AB9B820BBE0B5B7A536C0FCFDF97B9ECA6E81657615312E6A0AD6F02AD17C3A73AC0D4CDE33BD1F225749B5F29E523FA2F4DD34BE8A3F0674FD3EB394DE7EEF10CF665AA17876E147DE41A9D711D3EDDFE8434F02D8B295F88379B8C97EB9C67D13A666CB32CF2C41D1F7147D705FEDF6407E2296193A6F1322C977192719E15F9C7C301D3BBB6C61439B6E46BBE382790E9D1CD65A947F1B465AF237796B741D9EF8759E95C0475A90F931F80699A42C47592E06F16C8F24F691ACFF85AC18CCB739C57BFE466355D99E1F1DBDEAE7ED74119FC290D7ABF9EDEAFA73FEF7A8AF34C4E451FB9113F358DC3E39DF8FEE0C777DD59CD77CC678DDF80D17C387E2406539C7C304DBD4E14DDBF8E675CAC75310DE5EB695935024DB2C315F7EAA7FF00AE26E397');
INSERT INTO "responses" VALUES('resp_066136a576062a1b24b09084a9648361','','completed',0,1795737192,1795737192,NULL,'resp_066136a5708d52b49df6778ff20b1ee1',NULL,NULL,NULL,0,'{"id":"resp_066136a576062a1b24b09084a9648361","object":"response","created_at":1795737192,"completed_at":1795737192,"status":"completed","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"script","parallel_tool_calls":true,"previous_response_id":"resp_066136a5708d52b49df6778ff20b1ee1","conversation":null,"prompt":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","usage":{"input_tokens":99,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":0,"forced_tokens":0},"total_tokens":105},"user":null,"metadata":{},"_current_date":"2026-11-26"}',X'789CED56DB6EE23010FD95959F114A80DCF882FD87AAB29C7842BD75ECAC2F6D51C5BFEF38242414586DABA2AE767923C7F6CC9933678CEF5E89DBB640D6C4806DB5B230AF0C30079CCC88859F1E540554F9A60443D6D1ECB08DAC5F89E0FD391AA569BC4C5992A551BA6071B958955111E52B56A4AB7C99C6184C973FA072934488F5A928433CCE8A245B6671B1405C37AD8461457929918C63CE5B3C2F146D8DDE60188B214A563D6E8CF60AB9D44C5A981130469BE198504330CAC13121EDB8629DF195134866C01AF642B577AD77D4E947385E705A4B5A31398668340789946C6544EB4291DD59B2BEBB9F919619DC0BF2E81C664486AD8127A1BDA58316F48C9451CE9345B92A789D66595ED78BA88C01829495564F602C0BD4072A2849D3BAE32F4C5A3D007D84ED59DCA0286A1A03BB61B5126A139A0B75AD4DE857035CF826D8C1370D337DAC1D7EB31ADC16A98728B58083E616CC9340DBB80E231C6AE66590C73A6D6010C141D382C1A606289E470179712135266E58F7ABF766B78019B1EA525BE1B6232D44F7FA3E684C8938F34E933D68F78D70BAA5526FB0F6D2761E0E40DBE7C456D8CEE32D282643E428C0B5D97B7FFB0647EAAAEA85275C5856CA6E54BC651B18EAF776D4A241D371E61856B3DBED66A7E3766CE793918B6F23771BB9DBC87DEAC8F5761328C79C717EFEBF6E31588B0AC5E1A5AB229C9868D4E03C040EB3FD5836763399CA98E5599A725E553C4DF23C2B33962C2A7271AA8C969D96D60ADCA142EFDA0716A69ED402F5A04CD96724D67931B828287DB6BC7E9DE234B8CBF52DF7E5D0F7503F116448352221E944A261B2839B06B711FCC594D28EF5174170CCE8960B554D22CDF10AC0F69E296A759DA2F6F9D6E43B48199C7E44F6A35C93EB72FDB6D5FEBD54B582734CD3EB30EDDDD089FA876C8FAC7D896EF675CE9ED6F2618B77F7D2A5E2F2AB5F4B8797C0072FA5CF52E8D2E536B23B11A7F892C7D274E5AC8A7FE983E9DF33CCED09F85F3E0171D2D5741C8A6276848C53F54ABA26F0C3D670D3776D7936788B8EF0EE70CD0E50FA0699063DB4701A17F5ACA6993ACD1C9307248E92DDEF5EAEF7BF005DD90B65');
INSERT INTO "responses" VALUES('resp_066136a57665017618acbfd5ab38624f','','completed',0,1795737192,1795737192,NULL,NULL,'conv_066136a56fb2f2b89ae9100fe1f3efef',1,NULL,0,'{"id":"resp_066136a57665017618acbfd5ab38624f","object":"response","created_at":1795737192,"completed_at":1795737192,"status":"completed","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"script","parallel_tool_calls":true,"previous_response_id":null,"conversation":{"id":"conv_066136a56fb2f2b89ae9100fe1f3efef"},"prompt":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"truncation":"disabled","usage":{"input_tokens":74,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":0,"forced_tokens":0},"total_tokens":80},"user":null,"metadata":{},"_current_date":"2026-11-26"}',X'789CED565B6EDB3010BC4AC16FC3B02C5BB27D82DE2108084A5A3A6C2852E5238911F8EE5D524FC736D0043552B4F97386E2EEECECEC8677AFC41D1A203B62C0365A5998970698838ACC88859F1E540954F9BA0043768BD9F019D9BD125175F7E822CB923463EB3CCBD68B24CF920D2B0B5EAD59916EB2E58A63305DFC80D24D1221D6A5A20CF124DFAEF3344FB64BC475DD48E84F949712C938E6BCC5FB42D1C6E83D86B118A260E5E3DE68AF900B67D2C28C8031DAF4D784EA83D10A1C13D28E27D6195F3A81647AAC662F547BD778479D7E84D303A7B5A4259363885A572091922D8D685C2832DE25BBBBFB196998C16F419EDCC38CC8B031F024B4B7B4D7820629DB98A5564F602C0BBC06910338889CF162C997C566CB609B2C161C129E02074E8E2132563B68D6FE85B9CB07A08F70B8881BD446B5D9DA536C8AD54AA87D480F9C6B13DA5643257C1D5CE1EB9A992E16A6B48C833B6005210A1730486FC13C09748F8B18A980332F834AD66903BD160EEA060CF63640C97C119017175263E29AC55F9D45E30166447D0A6D853B8CB4106D657ED0981271E69D262D68DB7E38DD50A9F7587B61A39503D07439B123365ABD01C56488BC083037ED081CDEE0485D955D8B48252C2B649C186FD91EFAFABD1DB5A8D17B15730CAB391E8FB3F3A93B75F5D9E4255F93F735795F93778BC9EB5C27508E39ABAACBFFF996BDC3A85015BCC42AC28D8946358E45E0306B8D53DBFD6438F37499A5EB4D526C5759C58A6DB95925794AAE0E97D1326A69ADC02F54E85DF3C0C2F0132E500FCA947D4662D1B5C14541E98BE575E71487C25DAF2F6DCBA1EFA17E26489F6A4442D28944FD800737F56E23F88B29A51DEBF64170CCE8962B554D22CD7113607B2F14B5BA4D516DBE1DF90E5206A79F90FD28D7F56DB97E3B68FF5EAA5AC125A6D96D98766E88A2FE26DB136B5FA39B7F9EB3A7B57CD8E2712F5D2B6E73F3B5343C083EB894FE9442D796DBC8EE4C9CEDA7BC99A6271755FC4BDF4DFF9E61BE5E82FFF34B10BBA6A6539187D7C0041987EB95C42654C3A761E1C7B63C1B5CA6237C1CB66D0F656F9069D0A185D3B8A86739CD1435734C0EC82640D7DFAFF7BF00AD2A105E');
CREATE TABLE stored_bytes (
	id TEXT NOT NULL, 
	added BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "stored_bytes" VALUES('',13475);
CREATE TABLE uploads (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	status TEXT NOT NULL, 
	file TEXT NOT NULL, 
	PRIMARY KEY (id)
);
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
CREATE INDEX ix_batches_owner ON batches (owner, created_at, id);
CREATE INDEX ix_batches_expires_at ON batches (expires_at);
CREATE INDEX ix_uploads_expires_at ON uploads (expires_at);
CREATE INDEX ix_uploads_owner ON uploads (owner, created_at, id);
COMMIT;
