-- Questions about what is in the topics now.
DESCRIBE flights;

SELECT name, count(*) AS flights, round(avg(dep_delay), 1) AS delay
FROM flights JOIN airlines USING (carrier)
GROUP BY name ORDER BY delay DESC LIMIT 5;

-- As it comes: with EMIT CHANGES a query goes on, here until it has three rows.
SELECT carrier, flight, dep_delay FROM flights WHERE dep_delay > 300 LIMIT 3 EMIT CHANGES;
