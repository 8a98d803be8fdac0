return 1
---
return {1,2,{3,'four'},false,true}
---
return KEYS[1]..ARGV[2]
---
return {err='FOO bar'}
---
return redis.error_reply('FOO bar')
---
return redis.error_reply('-FOO')
---
return redis.error_reply('bar')
---
return redis.status_reply('OK fine')
---
return redis.status_reply(1)
---
return redis.sha1hex('')
---
return redis.sha1hex()
---
return foo
---
foo = 1
---
_G.x = 1
---
redis.call = 1
---
rawset(redis,'x',1)
---
setmetatable(_G,{})
---
local g = getmetatable(_G); g.__index = {}
---
getmetatable('').__index = nil
---
return redis.call('echo','x')
---
return redis.call('nope')
---
return redis.pcall('nope')
---
return redis.call()
---
return redis.call({})
---
return {pcall(redis.call,'nope')}
---
error('boo')
---
error({err='My boo'})
---
local t={} t.x.y=1
---
return nil+1
---
syntax error here
---
return cjson.encode({a=1,b={1,2,3},c='x/y"\\\1'})
---
return cjson.encode({1,2,nil,4})
---
return cjson.encode({[1]=1,[100]=2})
---
return cjson.encode({1.5,1e20,0.1,1/3,-0})
---
return cjson.encode(1/0)
---
return cjson.encode({[{}]=1})
---
return cjson.encode(print)
---
return cjson.encode({})
---
return cjson.decode('{"a":[1,2,{"b":null}],"c":"\\u00e9\\ud83d\\ude00\\n"}').c
---
return cjson.decode('[1,2')
---
return cjson.decode('[1,]')
---
return cjson.decode('{"a" 1}')
---
return cjson.decode('{a:1}')
---
return cjson.decode('{"a":1,}')
---
return cjson.decode('tru')
---
return cjson.decode('"\\x"')
---
return cjson.decode('"abc')
---
return cjson.decode('"\\ud800"')
---
return cjson.decode('1 2')
---
return cjson.decode('')
---
return tostring(cjson.decode('nan'))..tostring(cjson.decode('-inf'))..cjson.decode('0x10')
---
return cjson.decode('[[1,2],[3]]')[2][1]
---
return tostring(cjson.decode('[null]')[1]==cjson.null)
---
local t={} for i=1,1100 do t={t} end return cjson.encode(t)
---
return cjson.decode(string.rep('[',1100))
---
return cjson.encode_max_depth()
---
return {cjson.encode_sparse_array()}
---
return cjson.encode_number_precision(20)
---
return cjson.encode({[1.5]='x'})
---
return cmsgpack.pack(1,-1,127,128,255,256,65535,65536,4294967295,4294967296,-32,-33,-128,-129,-32768,-32769,-2147483648,-2147483649)
---
return cmsgpack.pack(1.5,0.1,1/0,-1/0,2^53,2^63,2^64,-2^63)
---
return cmsgpack.pack({1,2,3},{a=1},{},{[1]=1,[3]=2},'str',string.rep('x',32),string.rep('x',300),string.rep('x',70000),true,false,nil)
---
return {cmsgpack.unpack(cmsgpack.pack(1,-1,127,128,255,256,65535,65536,4294967295,4294967296,-32,-33,-128,-129,-32768,-32769,-2147483648,-2147483649))}
---
return cmsgpack.unpack(cmsgpack.pack({1,{2,{3}},x=5}))[2][2][1]
---
return {cmsgpack.unpack_one(cmsgpack.pack(7,8,9))}
---
return {cmsgpack.unpack_limit(cmsgpack.pack(7,8,9),2)}
---
return {cmsgpack.unpack_limit(cmsgpack.pack(7,8,9),2,1)}
---
return cmsgpack.unpack('\204')
---
return cmsgpack.unpack('\193')
---
return cmsgpack.pack()
---
return cmsgpack.unpack_limit('x',-1)
---
return cmsgpack.unpack_one('x',5)
---
local t={} for i=1,20 do t={t} end return cmsgpack.pack(t)
---
return {tostring(cmsgpack.unpack(cmsgpack.pack(0.1))), tostring(cmsgpack.unpack(cmsgpack.pack(1.5)))}
---
return struct.pack('>I2 <i4 !8 d b x s c3 c0','65535',-2,1.5,-1,'abc','defg','hij')
---
return {struct.unpack('>I2i4',struct.pack('>I2i4',513,-7))}
---
return {struct.unpack('bc0',struct.pack('bc0',3,'abc'))}
---
return {struct.unpack('s',  'abc')}
---
return {struct.unpack('i4',  'abc')}
---
return struct.size('!8bid')
---
return struct.size('s')
---
return struct.pack('i33',1)
---
return struct.pack('i99999999999',1)
---
return struct.pack('Z',1)
---
return struct.pack('!3',1)
---
return {struct.unpack('c0','abc')}
---
return {struct.unpack('B','abc',10)}
---
return {struct.unpack('B','abc',0)}
---
return {tostring(select(1,struct.unpack('f',struct.pack('f',1.25)))), tostring(select(1,struct.unpack('>d',struct.pack('>d',-1.25))))}
---
return struct.pack('hHlLT',-1,65535,-5,5,9)
---
return struct.pack('c5','abc')
---
return {bit.tobit(4294967296+5),bit.tobit(-1.5),bit.tobit(2.5),bit.bnot(0),bit.band(255,15),bit.bor(1,2,4),bit.bxor(7,1),bit.lshift(1,31),bit.rshift(-1,28),bit.arshift(-16,2),bit.rol(1,33),bit.ror(1,1),bit.bswap(1)}
---
return {bit.tohex(255),bit.tohex(255,-4),bit.tohex(255,0),bit.tohex(-1,100),bit.tohex(1,-2147483648)}
---
return bit.band()
---
return {string.find('hello world','o w'),string.find('hello','l+'),string.find('a.b','.',1,true),string.find('abc','b',-1),string.find('','')}
---
return {string.match('key=val','(%w+)=(%w+)')}
---
return {string.match('  trim  ','^%s*(.-)%s*$')}
---
return {string.gsub('hello world','o','0')}
---
return {string.gsub('hello','(l)(l)','%2%1%0%%')}
---
return {string.gsub('abc','%w',{a='1',b=true})}
---
return {string.gsub('abc','%w',function(c) if c=='b' then return nil end return c..c end)}
---
return {string.gsub('abc','','-')}
---
return {string.gsub('abc','b*','-')}
---
return {string.gsub('abc def','%f[%w]%w+',string.upper)}
---
local r={} for k,v in string.gmatch('a=1,b=2','(%w+)=(%w+)') do r[#r+1]=k..v end return r
---
local r={} for w in string.gmatch('abc','') do r[#r+1]='x'..w end return r
---
return {string.match('[[x]]','%b[]'),string.match('f(a(b)c)d','%b()'),string.match('abab','(ab)%1'),string.find('abc','()b()')}
---
return string.match('x','[')
---
return string.match('x','%')
---
return string.match('x','(x')
---
return string.match('x','x)')
---
return string.match('x','%1')
---
return string.match('x','%b')
---
return string.match('x','%f')
---
return {string.match('a-z]','[]-z]+'),string.match('^','[%^]'),string.match('a]','[^]]'),string.match('x-y','[a%-]')}
---
return {string.match('0x1F','^0[xX](%x+)$'),string.match('\0a','%z'),string.match('A b','%u%s%l')}
---
return {string.rep('ab',3),string.rep('x',0),string.rep('x',-1)}
---
return {string.byte('abc',1,-1)}
---
return string.format('%5d|%-5s|%q|%05.1f|%x|%c|%%',42,'ab','a"b\n',3.14159,255,65)
---
return {('x'):upper(),('abc'):sub(2),#'abc',('%d'):format(5)}
---
return {table.concat({1,2,3},','),table.concat({},',')}
---
local t={3,1,2} table.sort(t) return t
---
local t={3,1,2} table.sort(t,function(a,b) return a>b end) return t
---
local t={1,2} table.insert(t,3) table.insert(t,1,0) return {t,table.remove(t),table.remove(t,1),#t,table.getn(t),table.maxn(t)}
---
table.insert({},1,2,3)
---
return {unpack({1,2,3})}
---
return {unpack({1,2,3},2)}
---
return {unpack({1,2,3},2,5)}
---
return {select('#',1,2,3),select(2,'a','b')}
---
return {tonumber('10'),tonumber('0x10'),tonumber('z',36),tostring(tonumber('x')),tostring(1e15),tostring(2^53),tostring(0.1)}
---
return {type(1),type(''),type({}),type(nil),type(type),type(true)}
---
return {pcall(error,'x')}
---
return {pcall(error,{err='E x'})}
---
return {pcall(error,{code=1})}
---
return {xpcall(function() error('a') end,function(e) return 'H:'..e end)}
---
local co=coroutine.create(function(a,b) local c=coroutine.yield(a+b) return c*2 end) return {coroutine.resume(co,1,2),select(2,coroutine.resume(co,5)),coroutine.status(co),tostring(coroutine.resume(co))}
---
local f=coroutine.wrap(function() for i=1,3 do coroutine.yield(i) end end) return {f(),f(),f()}
---
local f=coroutine.wrap(function() error('in co') end) f()
---
return {coroutine.resume(coroutine.create(function() error('in co') end))}
---
return loadstring('return 1+1')()
---
return {loadstring('return +')}
---
local i=0 return load(function() i=i+1 return ({'return ','7'})[i] end)()
---
return tostring(_G._G==_G)
---
local n=0 for k,v in pairs({a=1,b=2,3}) do n=n+v end return n
---
local r={} for i,v in ipairs({'a','b',nil,'c'}) do r[i]=v end return r
---
return rawget(redis,'REDIS_VERSION')
---
return {tostring(rawget(_G,'nope')),tostring(rawequal('a','a'))}
---
return {math.floor(1.5),math.max(1,5,3),math.min(2,1),math.fmod(7,3),math.abs(-3),tostring(math.huge),math.modf(3.7)}
---
math.randomseed(42) return {tostring(math.random()),math.random(10),math.random(5,9)}
---
math.randomseed(1) local t={} for i=1,20 do t[i]=math.random(1000000) end return t
---
return math.random(0)
---
return {redis.REDIS_VERSION_NUM,redis.LOG_WARNING,redis.REPL_ALL}
---
return redis.setresp(4)
---
return redis.log(1)
---
return redis.log('x','y')
---
return redis.log(9,'y')
---
return redis.set_repl(9)
---
return tostring(redis.replicate_commands())..tostring(redis.breakpoint())
---
return {double=3.25}
---
return {big_number='12345678901234567890'}
---
return {verbatim_string={format='txt',string='hello'}}
---
return {map={a=1}}
---
return {set={a=true}}
---
redis.setresp(3) return {map={a=1,b={double=1.5}}}
---
redis.setresp(3) return {true,false}
---
return 3.99
---
return -3.99
---
return 1e300
---
return 0/0
---
return print
---
return
---
return {1,2,nil,4}
---
return {ok='fine\r\nx'}
---
return {err='fine\r\nx'}
---
local a={} a[1]=a return #tostring(a)>0
---
return tostring(collectgarbage('count')>0)
---
return dofile
---
return os
---
return io
---
return require
---
return debug
---
return package
---
local function f() return 1+f() end return f()
---
return string.gsub(string.rep('a',100),'a',string.rep('b',10))
---
return {1==1.0,'a'<'b'}
---
return tostring(nil)..tostring(true)..tostring(12)..tostring('x')
---
return ('x'):rep(3,',')
---
return table.foreach({a=1},function(k,v) return k..v end)
---
return table.foreachi({'p','q'},function(i,v) if i==2 then return v end end)
---
table.setn({},1)
---
return {next({}),next({5})}
---
return assert(false,'assert msg')
---
return assert(nil)
---
local t=setmetatable({},{__index=function(t,k) return k..'!' end}) return t.abc
---
local t=setmetatable({},{__metatable='locked'}) return {getmetatable(t), pcall(setmetatable,t,{})}
---
return {pcall(string.rep)}
---
return {pcall(string.find,'a')}
---
return {pcall(setmetatable,1,{})}
---
return _VERSION
---
return {KEYS,ARGV,#KEYS,#ARGV}
---
KEYS[1]='changed' return KEYS[1]
---
KEYS={} return 1
---
return cjson.encode({name='x',id=5,list={},nested={a={b={c=1}}},f=false})
---
return cjson.encode('\127\128é')
---
local t = {} for i=1,40 do t['k'..i]=i end return cjson.encode(t)
---
local t = {} for i=1,40 do t['k'..i]=i end return cmsgpack.pack(t)
---
return redis.acl_check_cmd('nosuch')
---
return redis.debug('x')
